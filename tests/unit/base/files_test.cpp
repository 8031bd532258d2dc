// Small files of a machine, out of a temporary folder: what is there is read to the letter, what is
// not reads as empty.
#include "host/base/files.h"

#include "host/base/memory_limit.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace gshmem {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "gshmem-files.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root = name;
  }
  ~Folder() { fs::remove_all(root); }
  Folder(const Folder&) = delete;
  [[nodiscard]] fs::path write(const std::string& file, const std::string& text) const {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file, std::ios::binary) << text;
    return root / file;
  }
  fs::path root;
};

TEST_CASE("lines_and_bytes_of_a_file_are_those_that_it_has") {
  const Folder folder;
  const fs::path file = folder.write("file", "one two\nthree\n");
  CHECK(first_line(file) == "one two");
  CHECK(first_line(folder.write("open_end", "no newline")) == "no newline");
  CHECK(first_line(folder.write("none", "")).empty());
  CHECK(whole_file(file) == "one two\nthree\n");
  CHECK(whole_file(file, 4) == "one ");
  CHECK(whole_file(file, 14) == "one two\nthree\n");
  const std::string bytes("a\0b\n\r\xff", 6);
  CHECK(whole_file(folder.write("bytes", bytes)) == bytes);
  const std::string large(70'000, 'x');
  CHECK(whole_file(folder.write("large", large)) == large.substr(0, 65536));
  for (const fs::path& missing : {folder.root / "missing", folder.root}) {
    CHECK(first_line(missing).empty());
    CHECK(whole_file(missing).empty());
    CHECK_FALSE(number_in(missing));
    CHECK(value_in(missing, "key").empty());
  }
}

TEST_CASE("numbers_are_decimal_or_hex_and_end_where_something_else_follows") {
  CHECK(leading_number("0") == 0);
  CHECK(leading_number("1099511627776 kB") == 1099511627776);
  CHECK(leading_number("-12") == -12);
  CHECK(leading_number("19a") == 19);
  CHECK(leading_number("0x1f") == 31);
  CHECK(leading_number("0xffffg") == 65535);
  CHECK(leading_number("9223372036854775807") == INT64_MAX);
  for (const char* text : {"", " 1", "x1", "+1", "0x", "0xg", "-", "9223372036854775808"})
    CHECK_FALSE(leading_number(text));
  const Folder folder;
  CHECK(number_in(folder.write("number", "0x10 and more\n7\n")) == 16);
  CHECK_FALSE(number_in(folder.write("second", "max\n7\n")));
}

TEST_CASE("a_value_follows_the_first_line_that_begins_with_its_key") {
  const Folder folder;
  const fs::path file = folder.write("status",
                                     "Name:\tfirst\n  Cap: no\nCap:\t  0f 1\nCap: 2\nEmpty:\n"
                                     "Blank: \t \nLast:end");
  CHECK(value_in(file, "Name:") == "first");
  CHECK(value_in(file, "Cap:") == "0f 1");
  CHECK(value_in(file, "Empty:").empty());
  CHECK(value_in(file, "Blank:").empty());
  CHECK(value_in(file, "Last:") == "end");
  CHECK(value_in(file, "ame:").empty());
}

TEST_CASE("names_in_a_folder_are_sorted_and_links_say_where_they_end") {
  const Folder folder;
  for (const char* name : {"b", "a10", "a2", "c/inside"}) (void)folder.write(name, "");
  CHECK(names_in(folder.root) == std::vector<std::string>{"a10", "a2", "b", "c"});
  CHECK(names_in(folder.root / "missing").empty());
  CHECK(names_in(folder.root / "b").empty());
  fs::create_symlink("../drivers/mlx5_core", folder.root / "driver");
  CHECK(link_target_name(folder.root / "driver") == "mlx5_core");  // whether that is there or not
  CHECK(link_target_name(folder.root / "b").empty());
  CHECK(link_target_name(folder.root / "missing").empty());
}

TEST_CASE("cpus_are_numbers_and_ranges") {
  CHECK(cpu_list("0-3,8") == std::set<int>{0, 1, 2, 3, 8});
  CHECK(cpu_list("5") == std::set<int>{5});
  CHECK(cpu_list("7-7,2-3,3") == std::set<int>{2, 3, 7});
  CHECK(cpu_list("12-10").empty());
  CHECK(cpu_list("4-,x,,6\n") == std::set<int>{6});
  CHECK(cpu_list("").empty());
}

TEST_CASE("memory_is_limited_by_the_least_of_a_cgroup_and_those_above_it") {
  const Folder folder;
  CHECK_FALSE(cgroup_memory(folder.root));  // version 1, or none
  (void)folder.write("proc/self/cgroup", "1:memory:/other\n0::/user/job\n");
  CHECK_FALSE(cgroup_memory(folder.root));
  (void)folder.write("sys/fs/cgroup/user/job/memory.max", "max\n");
  CHECK_FALSE(cgroup_memory(folder.root));
  (void)folder.write("sys/fs/cgroup/other/memory.max", "1\n");
  (void)folder.write("sys/fs/cgroup/user/memory.max", "4096\n");
  CHECK(cgroup_memory(folder.root) == 4096);
  (void)folder.write("sys/fs/cgroup/user/job/memory.max", "8192\n");
  CHECK(cgroup_memory(folder.root) == 4096);
  (void)folder.write("sys/fs/cgroup/user/job/memory.max", "1024\n");
  CHECK(cgroup_memory(folder.root) == 1024);
  (void)folder.write("sys/fs/cgroup/memory.max", "512\n");  // a container's own
  CHECK(cgroup_memory(folder.root) == 512);
  (void)folder.write("proc/self/cgroup", "0::/\n");
  CHECK(cgroup_memory(folder.root) == 512);
}

}  // namespace
}  // namespace gshmem

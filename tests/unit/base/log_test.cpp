#include "host/base/log.h"

#include "host/base/error.h"
#include "tests/capture.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace gshmem {
namespace {

using test::StderrCapture;
using Lines = std::vector<std::string>;

/// A new folder that is removed with the object; logging returns to stderr first.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "gshmem_log_XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr, GSHMEMX_ERROR_SYSTEM, "mkdtemp");
    path_ = name;
  }
  ~TempFolder() {
    log_configure(LogLevel::kWarn, "");
    std::filesystem::remove_all(path_);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  [[nodiscard]] std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

Lines lines_of(const std::string& file) {
  std::ifstream in(file);
  Lines lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("line_has_pe_level_and_text_in_one_write") {
  StderrCapture capture;
  log_configure(LogLevel::kDebug, "");
  GSHMEM_ERROR("%s %d", "answer", 42);
  log_set_pe(7);
  GSHMEM_WARN("w");
  GSHMEM_INFO("i");
  GSHMEM_DEBUG("d");
  log_set_pe(-1);
  GSHMEM_ERROR("again");
  log_configure(LogLevel::kWarn, "");
  CHECK(capture.writes() == Lines{"gshmem[-] ERROR: answer 42\n", "gshmem[7] WARN: w\n",
                                  "gshmem[7] INFO: i\n", "gshmem[7] DEBUG: d\n",
                                  "gshmem[-] ERROR: again\n"});
}

TEST_CASE("level_selects_what_is_written") {
  const LogLevel levels[] = {LogLevel::kNone, LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo,
                             LogLevel::kDebug};
  for (std::size_t i = 0; i < std::size(levels); ++i) {
    StderrCapture capture;
    log_configure(levels[i], "");
    GSHMEM_ERROR("x");
    GSHMEM_WARN("x");
    GSHMEM_INFO("x");
    GSHMEM_DEBUG("x");
    log_line(LogLevel::kNone, "never");
    log_line_after_drops(LogLevel::kNone, 1, "never");
    for (std::size_t j = 1; j < std::size(levels); ++j) CHECK(log_enabled(levels[j]) == (j <= i));
    CHECK_FALSE(log_enabled(LogLevel::kNone));
    CHECK(capture.writes().size() == i);
  }
  log_configure(LogLevel::kWarn, "");
}

TEST_CASE("long_text_is_cut_to_one_atomic_write") {
  StderrCapture capture;
  // The longest text that fits has 4096 bytes less "gshmem[-] WARN: " and the newline.
  const std::string fits(4096 - 16 - 1, 'a');
  GSHMEM_WARN("%s", fits.c_str());
  GSHMEM_WARN("%sb", fits.c_str());
  log_line_after_drops(LogLevel::kWarn, 12, "%s", std::string(9000, 'c').c_str());
  const Lines lines = capture.writes();
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "gshmem[-] WARN: " + fits + "\n");
  CHECK(lines[1] == "gshmem[-] WARN: " + fits.substr(3) + "...\n");
  CHECK(lines[2].size() == 4096);
  CHECK(lines[2].ends_with("ccc... (12 similar lines dropped)\n"));
}

TEST_CASE("control_characters_cannot_forge_a_line") {
  StderrCapture capture;
  GSHMEM_WARN("a\ngshmem[0] ERROR: b\r\x1b[31m\x7f \xc3\xa4");
  CHECK(capture.writes() == Lines{"gshmem[-] WARN: a gshmem[0] ERROR: b  [31m  \xc3\xa4\n"});
}

TEST_CASE("a_child_configures_the_log_though_another_thread_was_configuring_it") {
  TempFolder folder;
  const std::string file = folder.file("a");
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) log_configure(LogLevel::kWarn, file);
  });
  for (int round = 0; round < 30; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);  // ends a wait for a thread that the child lacks
      log_configure(LogLevel::kWarn, "");
      ::_exit(0);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    if (status != 0) break;
  }
  over = true;
  other.join();
}

TEST_CASE("log_file_is_appended_to_and_stderr_comes_back") {
  TempFolder folder;
  StderrCapture capture;
  log_configure(LogLevel::kWarn, folder.file("a"));
  GSHMEM_WARN("1");
  log_configure(LogLevel::kWarn, folder.file("b"));
  GSHMEM_WARN("2");
  log_configure(LogLevel::kWarn, folder.file("a"));
  GSHMEM_WARN("3");
  log_configure(LogLevel::kWarn, "");
  GSHMEM_WARN("4");
  CHECK(lines_of(folder.file("a")) == Lines{"gshmem[-] WARN: 1", "gshmem[-] WARN: 3"});
  CHECK(lines_of(folder.file("b")) == Lines{"gshmem[-] WARN: 2"});
  CHECK(capture.writes() == Lines{"gshmem[-] WARN: 4\n"});
}

TEST_CASE("stderr_takes_what_the_file_cannot_and_the_reason_of_an_end") {
  const TempFolder folder;
  const std::string file = folder.file("log");
  StderrCapture capture;
  log_configure(LogLevel::kWarn, "/dev/full");
  GSHMEM_WARN("lost");
  log_configure(LogLevel::kWarn, file);
  GSHMEM_ERROR("one of many");
  log_last_line("the %s", "last");
  log_configure(LogLevel::kWarn, "");
  log_last_line("once");
  log_configure(LogLevel::kNone, "");
  log_last_line("none");
  CHECK(capture.writes() ==
        Lines{"gshmem[-] WARN: lost\n", "gshmem[-] ERROR: the last\n", "gshmem[-] ERROR: once\n"});
  CHECK(lines_of(file) == Lines{"gshmem[-] ERROR: one of many", "gshmem[-] ERROR: the last"});
}

TEST_CASE("lines_of_many_threads_never_mix_even_while_the_file_changes") {
  constexpr int kThreads = 4;
  constexpr int kLines = 500;
  TempFolder folder;
  const std::string files[] = {folder.file("a"), folder.file("b")};
  log_configure(LogLevel::kWarn, files[0]);
  std::vector<std::thread> threads;
  for (int pe = 0; pe < kThreads; ++pe) {
    threads.emplace_back([pe] {
      log_set_pe(pe);
      for (int i = 0; i < kLines; ++i) GSHMEM_WARN("%d %s", pe, std::string(200, 'x').c_str());
    });
  }
  for (int i = 0; i < 200; ++i) log_configure(LogLevel::kWarn, files[i % 2]);
  for (std::thread& thread : threads) thread.join();

  std::size_t count = 0;
  const std::string text(200, 'x');
  for (const std::string& file : files) {
    for (const std::string& line : lines_of(file)) {
      const std::string pe = line.substr(7, 1);
      CHECK(line == "gshmem[" + pe + "] WARN: " + pe + " " + text);
      ++count;
    }
  }
  CHECK(count == kThreads * kLines);
}

TEST_CASE("rate_limit_passes_a_burst_then_one_line_per_second") {
  RateLimit limit(3);
  int dropped = -1;
  const auto passes = [&](long now_ms) {
    dropped = -1;
    return limit.allow(now_ms, &dropped);
  };
  for (int i = 0; i < 3; ++i) {
    CHECK(passes(10));
    CHECK(dropped == 0);
  }
  CHECK_FALSE(passes(11));
  CHECK(dropped == -1);
  CHECK_FALSE(passes(1009));
  CHECK(passes(1010));
  CHECK(dropped == 2);
  CHECK_FALSE(passes(2009));
  CHECK(passes(9000));
  CHECK(dropped == 1);
  CHECK(passes(10000));
  CHECK(dropped == 0);
}

}  // namespace
}  // namespace gshmem

// What keeps strangers out of a job whose ranks know each other by an address alone.
#include "tests/bootstrap/run_ranks.h"
#include "tests/bootstrap/uid_fixture.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <map>

using namespace gshmem;
using namespace gshmem::test;

namespace {

/// A file of this test with one mode, which goes with it.
class SecretFile {
 public:
  SecretFile(const std::string& text, mode_t mode) {
    const int fd = mkstemp(path_.data());
    check_errno(fd, "mkstemp");
    check_errno(write(fd, text.data(), text.size()), "write");
    check_errno(fchmod(fd, mode), "fchmod");
    close(fd);
  }
  SecretFile(const SecretFile&) = delete;
  SecretFile& operator=(const SecretFile&) = delete;
  ~SecretFile() { unlink(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/gshmem_secret.XXXXXX";
};

constexpr double kSeconds = 60 * kPatience;

/// Rank 1 with its own settings, and rank 0; true when they make a job.
std::string join(const Config& zero, Config one) {
  one.uid_rank = 1;
  return run_threads(2, [&](int rank) {
    const auto boot = bootstrap::create(rank == 0 ? zero : one);
    boot->barrier();
  });
}

Config secret_config(const std::string& secret) {
  Config config = address_config(free_address(), 0, 2, kSeconds);
  config.uid_secret = secret;
  return config;
}

}  // namespace

TEST_CASE("uid_ranks_with_one_secret_make_a_job", "[uid]") {
  const Config config = secret_config("correct horse");
  CHECK(join(config, config) == "");
  const SecretFile file("correct horse\nbattery\n", 0600);
  Config by_file = config;
  by_file.uid_secret.clear();
  by_file.uid_secret_file = file.path();
  CHECK(join(config, by_file) == "");
}

TEST_CASE("uid_rank_with_another_secret_is_refused", "[uid]") {
  for (const std::string other :
       {"", "correct horsf", "correct hors", "correct horsecorrect horse"}) {
    const Config right = secret_config("correct horse");
    INFO(other);
    CHECK(run_threads(2, [&](int rank) {
            Config mine = right;
            mine.uid_rank = rank;
            if (rank == 1) {
              Config wrong = mine;
              wrong.uid_secret = other;
              expect_error(GSHMEMX_ERROR_BOOTSTRAP, "GSHMEM_UID_SECRET differs",
                           [&] { (void)bootstrap::create(wrong); });
            }
            bootstrap::create(mine)->barrier();
          }) == "");
  }
}

TEST_CASE("uid_bad_secret_files_are_named", "[uid]") {
  Config config = secret_config("");
  const SecretFile readable("secret\n", 0640), empty("\nsecret\n", 0600);
  const std::map<std::string, std::string> whys{{readable.path(), "chmod 600"},
                                                {empty.path(), "first line is empty"},
                                                {"/tmp", "not a file"},
                                                {"/nonexistent/secret", "No such file"}};
  for (const auto& [path, why] : whys) {
    config.uid_secret_file = path;
    expect_error(GSHMEMX_ERROR_CONFIG, why, [&] { (void)bootstrap::create(config); });
  }
}

TEST_CASE("uid_stranger_without_a_secret_gets_little_memory", "[uid]") {
  for (const bool secret : {false, true}) {
    const Config config = secret_config(secret ? "correct horse" : "");
    constexpr std::size_t kBytes = std::size_t{1} << 20;
    CHECK(run_threads(2, [&](int rank) {
            Config mine = config;
            mine.uid_rank = rank;
            const auto boot = bootstrap::create(mine);
            std::vector<std::byte> all(2 * kBytes);
            const auto gather = [&] { boot->allgather(all.data(), all.data() + kBytes, 64); };
            gather();
            const auto large = [&] {
              std::vector<std::byte> send(kBytes, std::byte{7});
              boot->allgather(send.data(), all.data(), kBytes);
            };
            if (secret) {
              large();
              expect(all.front() == std::byte{7} && all.back() == std::byte{7}, "all is there");
            } else {
              expect_error(GSHMEMX_ERROR_BOOTSTRAP, "GSHMEM_UID_SECRET", large);
            }
          }) == "");
  }
}

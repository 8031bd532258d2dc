// Tests what keeps strangers out of a job whose ranks know only an address.
#include "tests/bootstrap/run_ranks.h"
#include "tests/bootstrap/uid_fixture.h"
#include "tests/capture.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

using namespace gshmem;
using namespace gshmem::test;

namespace {

/// A file of this test with one mode, removed with the object.
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

/// Runs rank 0, and rank 1 with its own settings; returns an empty text if they make a job.
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

TEST_CASE("uid_rank_0_warns_if_strangers_of_other_hosts_could_join", "[uid]") {
  for (const std::string host : {"127.0.0.1", "0.0.0.0"}) {
    for (const std::string secret : {"", "correct horse"}) {
      Config config = secret_config(secret);
      config.uid_address.replace(0, config.uid_address.find(':'), host);
      config.uid_size = 1;
      INFO(config.uid_address << " " << secret);
      StderrCapture log;
      CHECK(bootstrap::create(config)->size() == 1);
      std::string said;
      for (const std::string& line : log.writes()) said += line;
      const bool is_open = host == "0.0.0.0" && secret.empty();
      CHECK(said.empty() == !is_open);
      if (is_open)
        CHECK_THAT(said, Catch::Contains("WARN: every process that reaches " + config.uid_address +
                                         " can join this job as a rank; set GSHMEM_UID_SECRET"));
    }
  }
}

TEST_CASE("uid_rank_with_another_secret_is_refused", "[uid]") {
  for (const std::string other :
       {"", "correct horsf", "correct hors", "correct horsecorrect horse"}) {
    const Config right = secret_config("correct horse");
    INFO(other);
    StderrCapture log;
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
    // Waiting ranks learn it at once, not after their time limit.
    std::string said;
    for (const std::string& line : log.writes()) said += line;
    CHECK_THAT(said, Catch::Contains(
                         "WARN: rank 0 of 2 still waits for others: a process at 127.0.0.1:") &&
                         Catch::Contains(" that calls itself rank 1 has another unique id or "
                                         "GSHMEM_UID_SECRET, and was refused"));
  }
}

TEST_CASE("uid_other_users_of_the_host_do_not_join_without_a_secret", "[uid]") {
  if (geteuid() != 0) {
    std::puts("skipped: only root can be another user");
    return;
  }
  const Config config = address_config(free_address(), 0, 2, kSeconds);
  const net::Endpoint root = net::resolve(config.uid_address, AddressFamily::kIpv4).front();
  IdChannel refused;
  CHECK(run_processes(3, [&](int process) {
          Config mine = config;
          mine.uid_rank = process == 0 ? 0 : 1;
          if (process == 1) refused.await(1);
          if (process < 2) return bootstrap::create(mine)->barrier();
          check_errno(setuid(65534), "setuid");
          while (!net::connect_to(root, Deadline(1)).fd) usleep(1000);
          RawClient stranger(root, {.text = "gshmem", .shown = true});
          stranger.join(1, 2);
          const std::string why = stranger.receive_failure();
          expect(
              why.find("refused: a process of user 65534 called, and this job is of user 0") == 0,
              why);
          expect_error(GSHMEMX_ERROR_BOOTSTRAP, "it is of user 0, and this process of user 65534",
                       [&] { (void)bootstrap::create(mine); });
          refused.signal();
        }) == "");
}

TEST_CASE("uid_bad_secret_files_are_named", "[uid]") {
  Config config = secret_config("");
  const SecretFile readable("secret\n", 0640), empty("\nsecret\n", 0600), nothing("", 0600);
  const std::map<std::string, std::string> whys{{readable.path(), "chmod 600"},
                                                {empty.path(), "first line is empty"},
                                                {nothing.path(), "first line is empty"},
                                                {"/tmp", "not a file"},
                                                {"/nonexistent/secret", "No such file"}};
  for (const auto& [path, why] : whys) {
    config.uid_secret_file = path;
    expect_error(GSHMEMX_ERROR_CONFIG, why, [&] { (void)bootstrap::create(config); });
  }
  for (const mode_t mode : {0620u, 0610u, 0604u, 0602u, 0601u}) {
    const SecretFile others("secret\n", mode);
    config.uid_secret_file = others.path();
    expect_error(GSHMEMX_ERROR_CONFIG, "others may read or write it",
                 [&] { (void)bootstrap::create(config); });
  }
}

TEST_CASE("uid_rank_that_may_be_a_stranger_gets_little_memory", "[uid]") {
  const Config config = secret_config("");
  CHECK(run_threads(2, [&](int rank) {
          Config mine = config;
          mine.uid_rank = rank;
          const auto boot = bootstrap::create(mine);
          const auto gather = [&](std::size_t bytes) {
            const std::vector<std::byte> send(bytes, std::byte{7});
            std::vector<std::byte> all(2 * bytes);
            boot->allgather(send.data(), all.data(), bytes);
            expect(all.front() == std::byte{7} && all.back() == std::byte{7}, "all is there");
          };
          gather(bootstrap::kMaxBytes);
          expect_error(GSHMEMX_ERROR_INVALID_VALUE,
                       "bootstrap allgather of 65537 bytes per rank; at most 65536",
                       [&] { gather(bootstrap::kMaxBytes + 1); });
          boot->barrier();
        }) == "");
}

TEST_CASE("uid_rank_that_sends_too_much_ends_the_job", "[uid]") {
  gshmemx_uniqueid id;
  bootstrap::make_uniqueid(&id, uid_config());
  CHECK(run_threads(2, [&](int rank) {
          if (rank == 0) {
            const auto boot = bootstrap::create_uid(id, 0, 2, uid_config());
            expect_error(GSHMEMX_ERROR_BOOTSTRAP, "rank 1 brings 65537 bytes",
                         [&] { boot->barrier(); });
            return;
          }
          RawClient client(id);
          client.join(1, 2);
          client.expect_kind(net::FrameKind::kWelcome);
          const std::vector<std::byte> much(bootstrap::kMaxBytes + 1);
          client.send(net::make_frame({.kind = net::FrameKind::kContribution, .number = 1}, much));
          expect(client.receive_failure().find("at most 65536") != std::string::npos, "told");
        }) == "");
}

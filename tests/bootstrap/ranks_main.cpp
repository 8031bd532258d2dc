// One rank of a job that a launcher started: bootstrap_ranks MODE. Exit 0 = this rank saw what it
// should, 1 = it did not, 77 = not possible here.
#include "bootstrap/pmix/exchange.h"
#include "host/base/fd.h"
#include "tests/bootstrap/conformance.h"
#include "tests/lifeline.h"
#include "tests/patience.h"
#include "tests/unit/base/capture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <thread>

using namespace gshmem;
using namespace gshmem::test;

namespace {

Config config_with_timeout(double seconds) {
  Config config;
  config.bootstrap = BootstrapKind::kAuto;
  config.bootstrap_timeout = seconds;
  config.uid_family = AddressFamily::kAny;
  config.uid_interface = "=lo";  // tests stay off the network
  return config;
}

void pmix_conforms() {
  conformance([] {
    auto boot = bootstrap::create(config_with_timeout(60 * gshmem::test::kPatience));
    expect(std::string(boot->name()) == "pmix", "auto takes PMIx under a PMIx launcher");
    return boot;
  });
}

/// Over the server alone. What it moves stays with the server, so not much of it.
void exchange_conforms() {
  conformance([] { return bootstrap::create_pmix_exchange(60); }, 4096);
}
void exchange_moves_chunks() {
  const auto boot = bootstrap::create_pmix_exchange(60);
  allgather_moves_every_byte(*boot, std::size_t{5} << 20);
}

bool is_last(const bootstrap::Bootstrap& boot) { return boot.rank() == boot.size() - 1; }

/// In its scope this process can open no more descriptors.
class NoDescriptors {
 public:
  NoDescriptors() {
    check_errno(getrlimit(RLIMIT_NOFILE, &before_), "getrlimit");
    rlimit limit = before_;
    const Fd lowest(static_cast<int>(check_errno(open("/dev/null", O_RDONLY), "open")));
    limit.rlim_cur = static_cast<rlim_t>(lowest.get());
    check_errno(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
  }
  ~NoDescriptors() { (void)setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

/// `reason` is said, or nothing where it is empty.
void expect_warning(const std::string& said, const std::string& reason) {
  const bool good =
      reason.empty() ? said.empty() : said.find("PMIx carries all data: " + reason) != said.npos;
  expect(good, "said: " + said);
}
std::string all_of(StderrCapture& capture) {
  std::string said;
  for (const std::string& line : capture.writes()) said += line;
  return said;
}

/// No interface fits, so there is no star; all ranks have to find that out and do without. Rank 0
/// says why, if there is somebody to connect to.
void pmix_without_tcp() {
  Config config = config_with_timeout(60 * gshmem::test::kPatience);
  config.uid_interface = "=none";
  {
    StderrCapture capture;
    const auto boot = bootstrap::create_pmix(config);
    const bool first = boot->size() > 1 && boot->rank() == 0;
    expect_warning(all_of(capture), first ? "no network interface" : "");
  }
  conformance([&] { return bootstrap::create_pmix(config); }, 4096);
}

/// The last rank cannot connect, and says so; all do without, and say who is missing.
void pmix_one_without_tcp() {
  const auto server = bootstrap::create_pmix_exchange(60);  // has the descriptors that PMIx needs
  StderrCapture capture;
  std::optional<NoDescriptors> none;
  if (is_last(*server)) none.emplace();
  const auto boot = bootstrap::create_pmix(config_with_timeout(60 * gshmem::test::kPatience));
  expect_warning(all_of(capture), is_last(*server) ? "socket" : "bootstrap init timed out");
  small_allgathers_do_not_mix(*boot, 20);
}

/// The last rank never calls: the others' calls end within the timeout, twice.
void missing_rank(bootstrap::Bootstrap& boot, const std::string& who) {
  boot.barrier();
  while (is_last(boot)) pause();  // ended by the launcher once another rank has its verdict
  expect_error(GSHMEMX_ERROR_TIMEOUT, "barrier timed out after 1 s", [&] { boot.barrier(); });
  expect_error(GSHMEMX_ERROR_TIMEOUT, who + " did not take part", [&] { boot.barrier(); });
  boot.abort(42, "verdict: missing rank seen");
  while (true) pause();
}
void pmix_missing_rank() {
  const auto boot = bootstrap::create_pmix(config_with_timeout(1));
  missing_rank(*boot, "rank " + std::to_string(boot->size() - 1));
}
void exchange_missing_rank() { missing_rank(*bootstrap::create_pmix_exchange(1), "another rank"); }

/// The last rank comes when the others have given up once. They come again, and all find each
/// other.
void late_rank(const std::function<std::unique_ptr<bootstrap::Bootstrap>(double)>& make) {
  if (std::atoi(std::getenv("PMIX_RANK")) == 2) {
    std::this_thread::sleep_for(std::chrono::seconds(3));
  } else {
    expect_error(GSHMEMX_ERROR_TIMEOUT, "timed out after 1 s", [&] { make(1)->barrier(); });
  }
  conformance([&] { return make(60 * gshmem::test::kPatience); }, 4096);
}
void pmix_late_rank() {
  late_rank([](double seconds) { return bootstrap::create_pmix(config_with_timeout(seconds)); });
}
void exchange_late_rank() { late_rank(bootstrap::create_pmix_exchange); }

/// The last rank dies in a collective; the others end, by an error or by the launcher's signal.
void killed_rank(bootstrap::Bootstrap& boot, const std::string& part) {
  boot.barrier();
  if (is_last(boot)) (void)raise(SIGKILL);
  const Error error = expect_error([&] { boot.barrier(); });
  expect(std::string(error.what()).find(part) != std::string::npos, error.what());
}
void pmix_killed_rank() {
  const auto boot = bootstrap::create_pmix(config_with_timeout(20));
  killed_rank(*boot, "rank " + std::to_string(boot->size() - 1) + " died");
}
void exchange_killed_rank() { killed_rank(*bootstrap::create_pmix_exchange(20), ""); }

/// The last rank aborts with 42, which is to become the launcher's exit code.
void pmix_abort() {
  const auto boot = bootstrap::create_pmix(config_with_timeout(20));
  boot->barrier();
  if (is_last(*boot)) {
    boot->abort(42, "the reason given");
  } else {
    expect_error(GSHMEMX_ERROR_PEER_FAILED, "the reason given", [&] { boot->barrier(); });
  }
  while (true) pause();  // only the launcher ends us
}

/// A child of the last rank, forked without exec, is told that it is no rank; it ends with the
/// destructors and exit handlers that it has of its parent, and the job goes on.
void pmix_child() {
  const auto boot = bootstrap::create_pmix(config_with_timeout(20 * gshmem::test::kPatience));
  boot->barrier();
  if (is_last(*boot)) {
    const pid_t child = fork();
    if (child == 0) {
      no_leak_check = true;
      expect_error(GSHMEMX_ERROR_NOT_SUPPORTED,
                   "forked from rank " + std::to_string(boot->rank()) + " of a PMIx job",
                   [] { (void)bootstrap::create(config_with_timeout(20)); });
      std::exit(0);
    }
    int status = -1;
    expect(waitpid(child, &status, 0) == child && status == 0, "the child ends well");
  }
  boot->barrier();
  allgather_moves_every_byte(*boot, 1 << 16);
}

/// Without a launcher.
void pmix_unreachable() {
  Config config = config_with_timeout(5);
  config.bootstrap = BootstrapKind::kPmix;
  const Error error = expect_error([&] { (void)bootstrap::create(config); });
  if (error.code() == GSHMEMX_ERROR_NOT_SUPPORTED) throw error;  // no PMIx at all: skipped
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "not started by a PMIx launcher",
               [&] { (void)bootstrap::create(config); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> modes{{"pmix", pmix_conforms},
                                                {"pmix-without-tcp", pmix_without_tcp},
                                                {"pmix-one-without-tcp", pmix_one_without_tcp},
                                                {"pmix-missing", pmix_missing_rank},
                                                {"pmix-late", pmix_late_rank},
                                                {"exchange-late", exchange_late_rank},
                                                {"pmix-killed", pmix_killed_rank},
                                                {"pmix-abort", pmix_abort},
                                                {"pmix-child", pmix_child},
                                                {"pmix-unreachable", pmix_unreachable},
                                                {"exchange", exchange_conforms},
                                                {"exchange-chunks", exchange_moves_chunks},
                                                {"exchange-missing", exchange_missing_rank},
                                                {"exchange-killed", exchange_killed_rank}};
  const auto mode = modes.find(argc == 2 ? argv[1] : "");
  if (mode == modes.end()) return 2;
  try {
    mode->second();
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.code() == GSHMEMX_ERROR_NOT_SUPPORTED ? 77 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

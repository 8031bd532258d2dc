// One rank of a job that a launcher started: bootstrap_ranks MODE. Exit 0 = this rank found what it
// expects, 1 = it did not, 77 = not possible here.
#include "host/base/fd.h"
#include "tests/bootstrap/conformance.h"
#include "tests/bootstrap/connected.h"
#include "tests/lifeline.h"
#include "tests/patience.h"
#include "tests/capture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
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
  config.uid_interface = "=lo";  // tests do not use the network
  return config;
}

constexpr double kSeconds = 60 * kPatience;

std::unique_ptr<bootstrap::Bootstrap> create_pmix(double seconds) {
  return bootstrap::create_pmix(config_with_timeout(seconds));
}

std::unique_ptr<Connected> connect_ranks(double seconds) {
  return std::make_unique<Connected>(create_pmix(seconds), config_with_timeout(seconds));
}

/// The collectives of a job whose ranks PMIx has connected.
void pmix_conforms() {
  conformance(
      [] {
        auto boot = bootstrap::create(config_with_timeout(kSeconds));
        expect(std::string(boot->name()) == "pmix", "auto takes PMIx under a PMIx launcher");
        return std::make_unique<Connected>(std::move(boot), config_with_timeout(kSeconds));
      },
      std::size_t{5} << 20);
}

bool is_last(const Collectives& boot) { return boot.rank() == boot.size() - 1; }

/// Uses the server only, which keeps all data that it moves, so the sizes are small.
void exchange_conforms() {
  conformance([] { return create_pmix(kSeconds); }, 4096);
  const auto boot = create_pmix(kSeconds);
  std::vector<std::byte> all(bootstrap::kMaxBytes + 1);
  expect_error(GSHMEMX_ERROR_INVALID_VALUE, "allgather of 65537 bytes per rank; at most 65536",
               [&] { boot->allgather(all.data(), all.data(), all.size()); });
  const std::string last = std::to_string(boot->size() - 1);
  const std::string what = is_last(*boot) ? "allgather of 8 bytes, but rank 0 passes 4"
                                          : "allgather of 4 bytes, but rank " + last + " passes 8";
  expect_error(GSHMEMX_ERROR_SYMMETRY, what,
               [&] { boot->allgather("12345678", all.data(), is_last(*boot) ? 8 : 4); });
  boot->barrier();
}

/// No network interface matches, and none is needed: all ranks are on one host.
void pmix_without_tcp() {
  Config config = config_with_timeout(kSeconds);
  config.uid_interface = "=none";
  StderrCapture capture;
  conformance([&] { return std::make_unique<Connected>(bootstrap::create_pmix(config), config); },
              4096);
  expect(capture.writes().empty(), "nothing is logged");
}

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

/// The last rank has no descriptors for its connections: an error on all ranks, and then all of
/// them connect.
void pmix_one_without_descriptors() {
  {
    const auto boot = create_pmix(kSeconds);  // this needs the descriptors of PMIx
    std::optional<NoDescriptors> none;
    if (is_last(*boot)) none.emplace();
    const Config config = config_with_timeout(kSeconds);
    expect_error(GSHMEMX_ERROR_SYSTEM,
                 is_last(*boot) ? "socket: Too many open files" : "init failed on PE 2: socket",
                 [&] { control::Plane(*boot, config, {}); });
  }
  small_allgathers_do_not_mix(*connect_ranks(kSeconds), 20);
}

/// The limit of calls that must time out. To start under PMIx takes longer on a busy machine, so
/// all ranks do that first, and may then be this far apart.
constexpr double kShortSeconds = 3;
const std::string kTimedOut = "timed out after 3 s";

/// The last rank never calls: the others' calls end within the timeout, twice.
void pmix_missing_rank() {
  const auto started = create_pmix(kSeconds);
  const auto ranks = connect_ranks(kShortSeconds);
  ranks->barrier();
  while (is_last(*ranks)) pause();  // the launcher ends it after another rank has its result
  const std::string who = "PE " + std::to_string(ranks->size() - 1) + " did not reach";
  for (int i = 0; i < 2; ++i) expect_error(GSHMEMX_ERROR_TIMEOUT, who, [&] { ranks->barrier(); });
  ranks->boot().abort(42, "verdict: missing rank seen");
  while (true) pause();
}
void exchange_missing_rank() {
  const auto started = create_pmix(kSeconds);
  const auto boot = create_pmix(kShortSeconds);
  boot->barrier();
  while (is_last(*boot)) pause();
  const std::string who = "rank " + std::to_string(boot->size() - 1) + " did not take part";
  expect_error(GSHMEMX_ERROR_TIMEOUT,
               "barrier " + kTimedOut + " (GSHMEM_BOOTSTRAP_TIMEOUT): " + who,
               [&] { boot->barrier(); });
  expect_error(GSHMEMX_ERROR_TIMEOUT, who, [&] { boot->barrier(); });
  boot->abort(42, "verdict: missing rank seen");
  while (true) pause();
}

/// The last rank comes after the others have given up once. They try again, and all are connected.
template <class Make>
void late_rank(const Make& make) {
  const auto started = create_pmix(kSeconds);
  if (is_last(*started)) {
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * kShortSeconds));
  } else {
    expect_error(GSHMEMX_ERROR_TIMEOUT, kTimedOut, [&] { make(kShortSeconds)->barrier(); });
  }
  conformance([&] { return make(kSeconds); }, 4096);
}
void pmix_late_rank() { late_rank(connect_ranks); }
void exchange_late_rank() { late_rank(create_pmix); }

/// The last rank dies in a collective; the others end by an error, or by the launcher's signal.
void killed_rank(Collectives& ranks, const std::string& part) {
  ranks.barrier();
  if (is_last(ranks)) (void)raise(SIGKILL);
  const Error error = expect_error([&] { ranks.barrier(); });
  expect(std::string(error.what()).find(part) != std::string::npos, error.what());
}
void pmix_killed_rank() {
  const auto ranks = connect_ranks(20);
  killed_rank(*ranks, "PE " + std::to_string(ranks->size() - 1) + " died");
}
void exchange_killed_rank() { killed_rank(*create_pmix(20), ""); }

/// The last rank ends the job with 42, which must become the launcher's exit code.
void pmix_abort() {
  const auto ranks = connect_ranks(20);
  ranks->barrier();
  if (is_last(*ranks)) {
    ranks->end("the reason given");
    ranks->boot().abort(42, "the reason given");
  } else {
    expect_error(GSHMEMX_ERROR_PEER_FAILED, "the reason given", [&] { ranks->barrier(); });
  }
  while (true) pause();  // until the launcher ends this process
}

/// A child of the last rank, forked without exec, learns that it is no rank. It ends with the
/// destructors and exit handlers of its parent, and the job goes on.
void pmix_child() {
  const auto boot = create_pmix(20 * kPatience);
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
  allgather_moves_every_byte(*boot, bootstrap::kMaxBytes);
}

/// There is no launcher.
void pmix_unreachable() {
  Config config = config_with_timeout(5);
  config.bootstrap = BootstrapKind::kPmix;
  const Error error = expect_error([&] { (void)bootstrap::create(config); });
  if (error.code() == GSHMEMX_ERROR_NOT_SUPPORTED) throw error;  // PMIx is missing: skipped
  expect_error(GSHMEMX_ERROR_BOOTSTRAP, "not started by a PMIx launcher",
               [&] { (void)bootstrap::create(config); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> modes{
      {"pmix", pmix_conforms},
      {"pmix-without-tcp", pmix_without_tcp},
      {"pmix-one-without-descriptors", pmix_one_without_descriptors},
      {"pmix-missing", pmix_missing_rank},
      {"pmix-late", pmix_late_rank},
      {"exchange-late", exchange_late_rank},
      {"pmix-killed", pmix_killed_rank},
      {"pmix-abort", pmix_abort},
      {"pmix-child", pmix_child},
      {"pmix-unreachable", pmix_unreachable},
      {"exchange", exchange_conforms},
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

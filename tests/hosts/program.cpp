// One PE of a job on several hosts (tests/hosts/run.sh), with the name of its scenario. It uses the
// runtime's own objects but no network path: PEs of other hosts are known, but their memory is not
// reached (HOSTS_ALL_MAPPED=1: it is, by fabric handles). So it makes host calls only, and no
// gshmem_barrier_all.
#include "host/runtime/process.h"

#include "tests/bootstrap/conformance.h"
#include "tests/bootstrap/connected.h"
#include "tests/patience.h"

#include <gshmem/gshmem.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

void gshmem::Network::open(const Outside&) {}
void gshmem::Network::take(int, net::ByteView) {}
void gshmem::Network::stop_first_use() noexcept {}
void gshmem::Network::stop() noexcept {}
void gshmem::Network::register_memory(std::uint64_t, std::size_t) {}
gshmem::nic::MemoryKeys::OfRange gshmem::Network::exchange_keys(std::uint64_t) { return {}; }
std::size_t gshmem::Network::key_bytes() const { return 0; }
void gshmem::Network::unregister_memory(std::uint64_t) noexcept {}
void gshmem::Network::register_local(const void*, std::size_t, abi::Be32*) {}
void gshmem::Network::unregister_local(const void*) noexcept {}
std::string gshmem::Network::explain(const abi::FaultRecord&) const { return {}; }

namespace {

using Clock = std::chrono::steady_clock;

int failures = 0;

void check_line(bool ok, int line, const char* text) {
  if (ok) return;
  ++failures;
  std::printf("FAILED program.cpp:%d: %s\n", line, text);
}
#define CHECK(condition) check_line((condition), __LINE__, #condition)

int number(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : 0;
}

/// The job as run.sh started it: host after host.
struct Shape {
  int hosts = number("HOSTS_COUNT"), pes = number("HOSTS_PES");
  int me = gshmem_my_pe(), n = gshmem_n_pes();
  [[nodiscard]] int last() const { return n - 1; }
  [[nodiscard]] bool on_last_host() const { return me / pes == hosts - 1; }
};

gshmem::Pe& pe() { return gshmem::require_pe("tests/hosts"); }

bool said(const gshmemx_fault_t& fault, const std::string& part) {
  return std::string(fault.message).find(part) != std::string::npos;
}

gshmemx_fault_t print_fault() {
  gshmemx_fault_t fault;
  gshmemx_last_fault(&fault);
  std::printf("fault %d %d %s\n", fault.code, fault.pe, fault.message);
  return fault;
}

std::string mark_of(int pe) {
  return std::string(std::getenv("HOSTS_FOLDER")) + "/met." + std::to_string(pe);
}
void await_folder(const Shape& job, int without) {
  for (int pe = 0; pe < job.n; ++pe) {
    while (pe != without && !std::ifstream(mark_of(pe)))
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}
/// All PEs but `without` synchronize outside of the job: a PE that has its error leaves only after
/// the others have theirs, so that they do not see it leave.
void synchronize_in_folder(const Shape& job, int without = -1) {
  std::ofstream(mark_of(job.me)) << "\n";
  await_folder(job, without);
}

void check_teams(const Shape& job) {
  CHECK(job.n == job.hosts * job.pes);
  const auto is = [](gshmem_team_t team, int my_pe, int n_pes) {
    return gshmem_team_my_pe(team) == my_pe && gshmem_team_n_pes(team) == n_pes;
  };
  CHECK(is(GSHMEM_TEAM_WORLD, job.me, job.n));
  const int mapped = number("HOSTS_ALL_MAPPED") != 0 ? job.n : job.pes;
  CHECK(is(GSHMEM_TEAM_SHARED, job.me % mapped, mapped));
  CHECK(is(GSHMEMX_TEAM_NODE, job.me % job.pes, job.pes));
  CHECK(is(GSHMEMX_TEAM_SAME_MYPE_NODE, job.me / job.pes, job.hosts));
  const gshmem::abi::DeviceState& state = pe().state();
  CHECK(state.mapped_first == job.me / mapped * mapped);
  CHECK(state.mapped_count == mapped);
  CHECK(state.slots == nullptr);
}

void check_collectives(const Shape& job) {
  // The offset is the same for all PEs, and the memory for all hosts.
  auto* first = static_cast<char*>(gshmem_malloc(1000));
  auto* second = static_cast<char*>(gshmem_calloc(8, 1 << 10));
  CHECK(first != nullptr && second > first);
  CHECK(gshmem_malloc(std::size_t{1} << 40) == nullptr);
  for (int pe = 0; pe < job.n; ++pe)
    CHECK(::pe().agree_status("test", job.me == pe ? 20 + pe : 0) == 20 + pe);
  CHECK(pe().agree_status("test", 0) == 0);
  CHECK(pe().host_sync("test", GSHMEM_TEAM_SHARED) == GSHMEMX_SUCCESS);  // of its members only
  gshmem_free(second);
  gshmem_free(first);
  constexpr int kBarriers = 200;
  const auto start = Clock::now();
  for (int i = 0; i < kBarriers; ++i) (void)pe().host_sync("test", GSHMEM_TEAM_WORLD);
  const std::chrono::duration<double, std::micro> spent = Clock::now() - start;
  std::printf("host barrier %.0f us\n", spent.count() / kBarriers);
  CHECK(gshmemx_last_fault(nullptr) == GSHMEMX_SUCCESS);
}

/// Runs the collectives of the conformance suite, and some with more bytes.
void collectives() {
  const gshmem::Config config = gshmem::Config::from_env();
  gshmem::test::conformance(
      [&] {
        return std::make_unique<gshmem::test::Connected>(gshmem::bootstrap::create(config), config);
      },
      std::size_t{1} << 20);
}

void life() {
  for (int round = 0; round < 2; ++round) {
    gshmem_init();
    const Shape job;
    check_teams(job);
    check_collectives(job);
    gshmem_finalize();
  }
}

/// The last PE asks for another size than the others: all learn both.
void disagree() {
  gshmem_init();
  const Shape job;
  CHECK(gshmem_malloc(job.me == job.last() ? 256 : 128) == nullptr);
  const gshmemx_fault_t fault = print_fault();
  CHECK(fault.code == GSHMEMX_ERROR_SYMMETRY);
  CHECK(said(fault, "passed 128") && said(fault, " 256"));
  CHECK(said(fault, "PE " + std::to_string(job.last())));
  synchronize_in_folder(job);
  gshmem_finalize();
}

/// The last PE stays away from a collective for longer than GSHMEM_TIMEOUT.
void late() {
  gshmem_init();
  const Shape job;
  (void)pe().host_sync("test", GSHMEM_TEAM_WORLD);
  if (job.me == job.last()) {
    std::this_thread::sleep_for(std::chrono::seconds(4));
  } else {
    (void)gshmem_malloc(64);
    const gshmemx_fault_t fault = print_fault();
    // The first PE that gets the error ends the job's waits; the others may learn of that before
    // their time.
    CHECK(fault.code == GSHMEMX_ERROR_TIMEOUT || fault.code == GSHMEMX_ERROR_PEER_FAILED);
    if (fault.code == GSHMEMX_ERROR_TIMEOUT)
      CHECK(said(fault, "PE " + std::to_string(job.last()) + " did not reach"));
  }
  gshmem_finalize();
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The last PE computes for longer than any time limit before it finalizes: the others wait for it.
void compute() {
  constexpr int kSeconds = 9;
  gshmem_init();
  const Shape job;
  (void)pe().host_sync("test", GSHMEM_TEAM_WORLD);
  const auto start = Clock::now();
  if (job.me == job.last()) std::this_thread::sleep_for(std::chrono::seconds(kSeconds));
  gshmem_finalize();
  CHECK(seconds_since(start) > kSeconds - 1);
}

/// Checks that `call` ends because of `victim`, on all but PE `without`, and that finalize returns.
template <class Call>
void expect_peer_failed(const Shape& job, int without, int victim, const char* what,
                        const Call& call) {
  const auto start = Clock::now();
  call();
  const double waited = seconds_since(start);
  std::printf("after %.2f s: ", waited);
  const gshmemx_fault_t fault = print_fault();
  CHECK(fault.code == GSHMEMX_ERROR_PEER_FAILED);
  CHECK(fault.pe == victim);
  CHECK(said(fault, "PE " + std::to_string(victim) + " " + what));
  CHECK(waited < number("GSHMEM_TIMEOUT"));  // this limit has not ended it
  synchronize_in_folder(job, without);
  const auto leaving = Clock::now();
  gshmem_finalize();
  std::printf("finalized in %.2f s\n", seconds_since(leaving));
  CHECK(seconds_since(leaving) < 20 * gshmem::test::kPatience);
}

void allocate() { (void)gshmem_malloc(64); }

/// PE HOSTS_VICTIM is killed; with HOSTS_CHILD=1 a child of it, forked without exec, lives on until
/// the others have synchronized.
void outlive_job(const Shape& job, int victim) {
  if (number("HOSTS_CHILD") == 0 || ::fork() != 0) return;
  const int nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  await_folder(job, victim);
  ::_exit(0);
}
void death() {
  gshmem_init();
  const Shape job;
  const int victim = number("HOSTS_VICTIM");
  (void)pe().host_sync("test", GSHMEM_TEAM_WORLD);
  if (job.me == victim) {
    outlive_job(job, victim);
    (void)raise(SIGKILL);
  }
  expect_peer_failed(job, victim, victim, "died", allocate);
}

/// The last PE leaves while the others go on.
void leave() {
  gshmem_init();
  const Shape job;
  (void)pe().host_sync("test", GSHMEM_TEAM_WORLD);
  if (job.me == job.last()) {
    gshmem_finalize();
    return;
  }
  allocate();
  const gshmemx_fault_t fault = print_fault();
  CHECK(fault.code == GSHMEMX_ERROR_SYMMETRY);
  CHECK(said(fault, "PE " + std::to_string(job.last()) + " called gshmem_finalize"));
  synchronize_in_folder(job, job.last());
  gshmem_finalize();
}

/// The link of the last host goes down.
void cut() {
  gshmem_init();
  const Shape job;
  (void)pe().host_sync("test", GSHMEM_TEAM_WORLD);
  const std::string folder = std::getenv("HOSTS_FOLDER");
  if (job.me == 0) std::ofstream(folder + "/ready") << "\n";
  while (!std::ifstream(folder + "/cut")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  // The side of a host decides which PEs are out of reach.
  const int victim = job.on_last_host() ? 0 : job.last() / job.pes * job.pes;
  expect_peer_failed(job, -1, victim, "cannot be reached", allocate);
}

/// The link goes down and comes up again, while PEs send over it.
void outage() {
  gshmem_init();
  const Shape job;
  const std::string folder = std::getenv("HOSTS_FOLDER");
  if (job.me == 0) std::ofstream(folder + "/ready") << "\n";
  for (int healed = 0; healed == 0 && gshmemx_last_fault(nullptr) == GSHMEMX_SUCCESS;) {
    gshmem_free(gshmem_malloc(64));
    healed = pe().agree_status("test", std::ifstream(folder + "/healed") ? 1 : 0);
  }
  gshmemx_fault_t fault;
  CHECK(gshmemx_last_fault(&fault) == GSHMEMX_SUCCESS);
  std::printf("fault %d %s\n", fault.code, fault.message);
  gshmem_finalize();
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> bodies{
      {"life", life},         {"collectives", collectives},
      {"disagree", disagree}, {"late", late},
      {"compute", compute},   {"death", death},
      {"leave", leave},       {"cut", cut},
      {"outage", outage}};
  const auto body = bodies.find(argc == 2 ? argv[1] : "");
  if (body == bodies.end()) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  body->second();
  return failures == 0 ? 0 : 1;
}

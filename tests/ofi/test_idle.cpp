// An executor with nothing to do leaves the cores idle, and still reacts at once.
#include "tests/ofi/job.h"
#include "host/base/log.h"
#include "tests/sanitizers/sanitizers.h"
#include "tests/capture.h"
#include "transport/ofi/fabric.h"
#include "transport/ofi/idle_wait.h"
#include "transport/ofi/ofi_nic.h"
#include "transport/ofi/provider.h"

#include <rdma/fi_rma.h>

#include <catch2/catch.hpp>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Instrumented code takes longer to find that there is nothing to do.
constexpr double kMayUse = kSanitized ? 1.5 : 0.5;

/// If it is not null, the cores that this thread may use.
thread_local const cpu_set_t* t_cores = nullptr;

/// A PE on a host, and the cores that it may use there.
struct OnCores {
  int host, first, count;
};

/// Returns "spin" or "sleep" for each PE of a job.
std::vector<std::string> polling_of(const std::vector<OnCores>& pes) {
  const auto boots = bootstrap::create_threads(static_cast<int>(pes.size()), 30);
  const Config config = config_of({"cxi", "auto"}, 20);
  fabric_double()->offer({"cxi"});
  std::vector<std::string> all(pes.size());
  std::vector<std::thread> threads;
  for (std::size_t pe = 0; pe < pes.size(); ++pe)
    threads.emplace_back([&, pe] {
      cpu_set_t cores;
      CPU_ZERO(&cores);
      for (int i = 0; i < pes[pe].count; ++i) CPU_SET(pes[pe].first + i, &cores);
      t_cores = &cores;
      std::vector<std::uint8_t> heap(4096);
      const auto nic = nic::open_ofi({.config = config,
                                      .boot = *boots[pe],
                                      .heap = {.base = heap.data(), .bytes = heap.size()},
                                      .host = pes[pe].host});
      all[pe] = nic->describe().find("spinning") != std::string::npos ? "spin" : "sleep";
      boots[pe]->barrier();
    });
  for (std::thread& thread : threads) thread.join();
  fabric_double()->reset();
  return all;
}

}  // namespace

/// Replaces the function of the C library.
extern "C" int sched_getaffinity(pid_t pid, std::size_t bytes, cpu_set_t* set) noexcept {
  std::memset(set, 0, bytes);
  if (t_cores == nullptr) return syscall(SYS_sched_getaffinity, pid, bytes, set) < 0 ? -1 : 0;
  std::memcpy(set, t_cores, std::min(bytes, sizeof(*t_cores)));
  return 0;
}

TEST_CASE("executors spin if each has three cores among those that share them", "[ofi][double]") {
  if (!have_double()) return;
  using All = std::vector<std::string>;
  CHECK(polling_of({{0, 0, 2}}) == All{"sleep"});
  CHECK(polling_of({{0, 0, 3}}) == All{"spin"});
  CHECK(polling_of({{0, 0, 5}, {0, 0, 5}}) == All{"sleep", "sleep"});
  CHECK(polling_of({{0, 0, 6}, {0, 0, 6}}) == All{"spin", "spin"});
  CHECK(polling_of({{0, 0, 5}, {0, 8, 5}, {0, 16, 2}}) == All{"spin", "spin", "sleep"});
  CHECK(polling_of({{0, 0, 5}, {1, 0, 5}}) == All{"spin", "spin"});
}

TEST_CASE("an executor without work sleeps longer and longer, at most 100 us", "[ofi]") {
  using namespace std::chrono_literals;
  int rounds = 0;
  std::chrono::nanoseconds idle = 300us;
  while (idle < 10ms) {
    const std::optional<long> sleep = ofi::idle_wait_ns(ofi::Polling::kSleep, idle);
    REQUIRE(sleep);
    CHECK((*sleep > 0 && *sleep <= 100'000));
    CHECK(*sleep <= idle.count() / 10);  // what comes meanwhile is not delayed by much
    idle += std::chrono::nanoseconds(*sleep);
    ++rounds;
  }
  CHECK(rounds < 200);
  CHECK(ofi::idle_wait_ns(ofi::Polling::kSleep, 1h) == 100'000);
}

TEST_CASE("idle executors burn no CPU and wake up fast", "[ofi]") {
  if (!have_libfabric()) return;
  const Leg leg = GENERATE(from_range(legs()));
  INFO(leg.name());
  // They would spin, because there are cores to spare.
  Job job(2, leg, 20 * kPatience, kDepth, {{"GSHMEM_OFI_POLL", "sleep"}});
  Client& client = job[0].to(1);
  REQUIRE(client.ring_and_wait(client.write(0, 64, 8)).ok());
  usleep(100000);
  const double cpu = cpu_seconds(), wall = wall_seconds();
  usleep(1000000);
  const double share = (cpu_seconds() - cpu) / (wall_seconds() - wall);
  std::vector<double> micros;
  for (int i = 0; i < 15; ++i) {
    usleep(30000);
    const double begin = wall_seconds();
    REQUIRE(client.ring_and_wait(client.write(0, 64, 8)).ok());
    micros.push_back((wall_seconds() - begin) * 1e6);
  }
  std::sort(micros.begin(), micros.end());
  std::printf(
      "%s: two idle executors use %.3f of a core; first write after 30 ms: min %.0f, median %.0f "
      "us\n",
      leg.name().c_str(), share, micros.front(), micros[micros.size() / 2]);
  CHECK(share < kMayUse);
}

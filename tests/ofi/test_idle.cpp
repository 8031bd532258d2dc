// An executor with nothing to do leaves the cores alone, and still reacts at once.
#include "tests/ofi/job.h"
#include "host/base/log.h"
#include "tests/sanitizers/sanitizers.h"
#include "tests/unit/base/capture.h"
#include "transport/ofi/ofi_nic.h"

#include <catch2/catch.hpp>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

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

// Instrumented code takes longer to find nothing.
constexpr double kMayUse = kSanitized ? 1.5 : 0.5;

}  // namespace

TEST_CASE("idle executors burn no CPU and wake up fast", "[ofi]") {
  if (!have_libfabric()) return;
  const Leg leg = GENERATE(from_range(legs()));
  INFO(leg.name());
  // With cores to spare they would spin.
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

TEST_CASE("the executor's thread sleeps as short as it is told to, and speaks for its PE",
          "[ofi]") {
  if (!have_libfabric()) return;
  Job job(2, legs().front());
  for (int pe = 0; pe < 2; ++pe) {
    int slack = 0;
    StderrCapture log;
    dynamic_cast<ofi::OfiNic&>(job[pe].nic()).executor().call([&] {
      slack = prctl(PR_GET_TIMERSLACK);
      GSHMEM_WARN("here I am");
    });
    CHECK(slack == 1000);
    const auto lines = log.writes();
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Catch::StartsWith(strprintf("gshmem[%d] WARN: here I am", pe)));
  }
}

TEST_CASE("an executor that spins hears of doorbells and knows the time", "[ofi][double]") {
  if (!have_double()) return;
  Job job(2, legs().front(), 0.4, kDepth, {{"GSHMEM_OFI_POLL", "spin"}});
  Client& client = job[0].to(1);
  REQUIRE(client.ring_and_wait(client.write(0, 64, 8)).ok());
  fabric_double()->rtt = 3600ll * 1'000'000'000;
  const double begin = wall_seconds();
  CHECK(int{client.ring_and_wait(client.write(0, 64, 8)).syndrome} == 0x15);
  CHECK(wall_seconds() - begin > 0.3);
  fabric_double()->rtt = 0;
}

// Tests how a PE treats faults, and the end of a job, as seen by its launcher.
#include "host/base/log.h"
#include "host/runtime/fault.h"
#include "host/runtime/pe.h"
#include "tests/bootstrap/run_ranks.h"
#include "tests/capture.h"

#include <catch2/catch.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>

using namespace gshmem;
using namespace gshmem::test;

namespace {

using Clock = std::chrono::steady_clock;

/// The messages to the launcher, in memory that a child shares.
struct Told {
  int times = 0, code = -1;
  char reason[512] = "";
};

/// The only PE of its job, whose launcher does not end it.
class Alone final : public bootstrap::Bootstrap {
 public:
  explicit Alone(Told& told) : told_(told) {}
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  const char* name() const noexcept override { return "alone"; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    std::copy_n(static_cast<const char*>(send), bytes, static_cast<char*>(recv));
  }
  void abort(int code, std::string_view reason) noexcept override {
    told_.code = code;
    std::snprintf(told_.reason, sizeof(told_.reason), "%s", std::string(reason).c_str());
    if (++told_.times == 1 && on_first) on_first();
  }
  std::function<void()> on_first;

 private:
  Told& told_;
};

struct Ended {
  std::string how;
  Told told;
  std::string lines;  ///< of the log
};

/// Runs `body` as a PE in a child and returns how the child ended.
Ended end_of(abi::FaultPolicy policy, const std::function<void(Pe&, Alone&)>& body) {
  void* const shared =
      ::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  Told& told = *new (shared) Told;
  Ended ended;
  {
    StderrCapture capture;
    ended.how = run_processes(1, [&](int) {
      PeOptions options{.config = Config::from_env()};
      options.config.device = DeviceChoice::kCpu;
      options.config.symmetric_size = 1 << 20;
      options.config.fault = policy;
      auto boot = std::make_unique<Alone>(told);
      Alone& alone = *boot;
      Pe pe(std::move(boot), options);
      log_configure(LogLevel::kInfo, "");
      body(pe, alone);
    });
    ended.lines = capture.text();
  }
  ended.told = told;
  ::munmap(shared, sizeof(Told));
  return ended;
}

int times(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a_pe_that_ends_the_job_makes_the_launcher_end_it_and_exits") {
  const Ended ended =
      end_of(abi::FaultPolicy::kReport, [](Pe& pe, Alone&) { pe.faults().global_exit(3); });
  INFO(ended.lines);
  CHECK(ended.how == "rank 0: exit 3\n");
  CHECK(ended.told.times == 1);
  CHECK(ended.told.code == 3);
  CHECK(ended.told.reason == std::string("PE 0 ends the job with status 3: gshmem_global_exit"));
}

TEST_CASE("a_pe_that_learns_that_another_ends_the_job_ends_it_too_and_names_that_pe") {
  const Ended ended = end_of(abi::FaultPolicy::kReport, [](Pe& pe, Alone&) {
    std::thread([&] {  // a thread that has not called for a PE
      pe.faults().on_peer_news(
          {.pe = 1, .event = control::PeerEvent::kExited, .why = "", .status = 5});
    })
        .join();
  });
  const std::string what = "PE 1 ends the job with status 5 (gshmem_global_exit)";
  INFO(ended.lines);
  CHECK(ended.how == "rank 0: exit 5\n");
  CHECK(ended.told.code == 5);
  CHECK(ended.told.reason == what);
  CHECK(times(ended.lines, "gshmem[0] WARN: " + what + "\n") == 1);
}

TEST_CASE("a_fault_that_ends_the_job_is_logged_once_even_if_others_end_it_too") {
  const Ended ended = end_of(abi::FaultPolicy::kAbort, [](Pe& pe, Alone& alone) {
    alone.on_first = [&] { pe.faults().end_job(); };
    pe.faults().raise(Error(GSHMEMX_ERROR_NIC, "it broke"));
  });
  INFO(ended.lines);
  CHECK(ended.how == "rank 0: exit 1\n");
  CHECK(ended.told.times == 2);
  CHECK(ended.told.reason == std::string("PE 0 ends the job with status 1: it broke"));
  CHECK(times(ended.lines, "ERROR: it broke (ending the job: GSHMEM_FAULT=abort)\n") == 1);
}

TEST_CASE("a_fault_that_names_another_pe_waits_for_news_of_its_death") {
  const Ended ended = end_of(abi::FaultPolicy::kAbort, [](Pe& pe, Alone& alone) {
    const auto raised = Clock::now();
    alone.on_first = [raised] {
      std::fprintf(stderr, "waited: %d\n", Clock::now() - raised >= std::chrono::milliseconds(100));
    };
    pe.faults().raise(Error(GSHMEMX_ERROR_NIC, "it does not answer"), 7);
  });
  INFO(ended.lines);
  CHECK(ended.how == "rank 0: exit 1\n");
  CHECK(times(ended.lines, "waited: 1\n") == 1);
}

TEST_CASE("a_host_thread_handles_its_own_fault_and_a_fault_of_a_kernel_ends_the_job") {
  const bool on_gpu = GENERATE(false, true);
  const Ended ended = end_of(abi::FaultPolicy::kAbort, [&](Pe& pe, Alone&) {
    abi::FaultRecord record{};
    record.code = GSHMEMX_ERROR_INVALID_VALUE;
    (void)fault_record(pe.state().control, record);
    pe.faults().poll_record(on_gpu);
    std::fputs("nothing so far\n", stderr);
  });
  INFO(ended.lines);
  CHECK(ended.how == (on_gpu ? "rank 0: exit 1\n" : ""));
  CHECK(ended.told.times == (on_gpu ? 1 : 0));
  CHECK(times(ended.lines, "ending the job: GSHMEM_FAULT=abort") == (on_gpu ? 1 : 0));
  if (!on_gpu) CHECK(ended.lines.find("nothing so far") < ended.lines.find("ERROR"));
}

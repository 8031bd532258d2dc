// Tests long waits: the text of their warnings, and which waits end after what other PEs report.
#include "host/base/log.h"
#include "host/runtime/waits.h"
#include "tests/capture.h"

#include <gshmem/constants.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

/// Bytes of a slot of the window after the runtime's own: the heap, and addresses for its growth.
constexpr std::uint64_t kSlot = 4096;

/// PE 0 of two, which exchanges messages with PE 1. The faults that it raises are recorded.
struct Rig {
  std::unique_ptr<abi::Control> control = std::make_unique<abi::Control>();
  std::vector<char> heap = std::vector<char>(64);
  abi::DeviceState state, other_state;
  std::vector<std::string> raised;
  std::uint64_t of_other = 0;  ///< the collective in which PE 1 waits
  Waits other{other_state,
              {.send = [this](int, net::ByteView message) { waits.take(1, message); },
               .raise = [](const Error&, int) {},
               .collective =
                   [this] {
                     return Waits::Outside::Collective{of_other, of_other};
                   },
               .lag = [](int) { return 0.0; }}};
  bool is_heard = true;
  Waits waits{state,
              {.send =
                   [this](int, net::ByteView message) {
                     if (is_heard) other.take(0, message);
                   },
               .raise = [this](const Error& error, int) { raised.push_back(error.what()); },
               .collective =
                   [] {
                     return Waits::Outside::Collective{0, 4};
                   },
               .lag = [](int) { return 0.0; }}};

  Rig() {
    state.control = control.get();
    state.heap = heap.data() - abi::kInternalBytes;  // memory before it is not accessed
    state.heap_bytes = abi::kInternalBytes + heap.size();
    state.stride = static_cast<std::int64_t>(abi::kInternalBytes + kSlot);
    state.my_pe = 0;
    state.n_pes = 2;
  }
  abi::WaitRecord& wait_for(int pe, const char* call, double seconds) {
    abi::WaitRecord& record = control->waits[0];
    record = {};
    record.claimed = record.published = record.by_host = 1;
    record.pe = pe;
    record.started = 5;
    record.waited = static_cast<std::uint64_t>(seconds * 1e9);
    std::strcpy(record.call, call);
    return record;
  }
  /// The waiter checks, then the monitor does.
  void look(int times = 1) {
    for (int i = 0; i < times; ++i) {
      ++control->waits[0].waited;
      (void)waits.look();
    }
  }
};

std::string lines_of(const std::function<void()>& body) {
  StderrCapture capture;
  log_configure(LogLevel::kWarn, "");
  body();
  std::string all;
  for (const std::string& line : capture.writes()) all += line;
  return all;
}

}  // namespace

TEST_CASE("a_wait_of_30_s_is_reported_with_the_call_of_the_awaited_pe_and_again_twice_as_late") {
  Rig rig;
  const Waits::Call there(rig.other, "gshmem_malloc");
  abi::WaitRecord& record = rig.wait_for(1, "gshmem_barrier_all", 29);
  CHECK(lines_of([&] { rig.look(2); }).empty());
  const auto at = [&](double seconds) {
    record.waited = static_cast<std::uint64_t>(seconds * 1e9);
    return lines_of([&] { rig.look(); });
  };
  CHECK(at(30).find("gshmem_barrier_all has waited 30 s for PE 1, which is in gshmem_malloc") !=
        std::string::npos);
  CHECK(at(59).empty());
  CHECK(at(61).find("has waited 61 s for PE 1") != std::string::npos);
  CHECK(rig.raised.empty());
}

TEST_CASE("a_long_wait_for_a_word_is_reported_with_its_offset_and_values") {
  // In the first part of the heap, in a later one, and after the last address.
  for (const std::uint64_t offset : {std::uint64_t{8}, kSlot - 8, kSlot}) {
    Rig rig;
    abi::WaitRecord& record = rig.wait_for(abi::kAnyPe, "gshmem_int_wait_until", 29.5);
    record.address = reinterpret_cast<std::uint64_t>(rig.heap.data()) + offset;
    record.cmp = GSHMEM_CMP_GE;
    record.is_signed = 1;
    record.wanted = 7;
    record.seen = ~std::uint64_t{0};
    rig.look();
    record.waited = 31'000'000'000;
    const std::string place = offset < kSlot ? strprintf("heap offset 0x%lx", offset)
                                             : strprintf("address 0x%lx", record.address);
    CHECK(lines_of([&] { rig.look(); })
              .find("gshmem_int_wait_until has waited 31 s for the word at " + place +
                    " to be >= 7, and it is -1") != std::string::npos);
  }
}

TEST_CASE(
    "a_long_wait_of_a_host_thread_names_the_call_of_the_other_pe_or_that_it_does_not_answer") {
  Rig rig;
  const Waits::Call here(rig.waits, "gshmem_finalize");
  CHECK(lines_of([&] {
          rig.waits.warn(30, 1);
        }).find("gshmem_finalize has waited 30 s for PE 1, which is in no call of the library") !=
        std::string::npos);
  rig.is_heard = false;
  CHECK(lines_of([&] {
          rig.waits.warn(60, 1);
        }).find("gshmem_finalize has waited 60 s for PE 1, which does not answer") !=
        std::string::npos);
}

TEST_CASE("a_wait_for_a_pe_that_is_gone_ends_after_one_more_check") {
  Rig rig;
  (void)rig.wait_for(1, "gshmem_team_sync", 1);
  rig.look(2);
  rig.waits.on_peer_news({1, control::PeerEvent::kLeft});
  rig.look(2);
  CHECK(rig.raised.empty());  // the expected signal may have arrived since the last check
  (void)rig.waits.look();     // PE 1 has not checked
  CHECK(rig.raised.empty());
  rig.look();
  CHECK(rig.raised ==
        std::vector<std::string>{"gshmem_team_sync waits for PE 1, which left the job"});
}

TEST_CASE("a_wait_for_a_pe_in_a_collective_of_all_ends_if_both_have_one_thread") {
  for (const bool later : {false, true}) {
    for (const int threads : {1, 2}) {
      Rig rig;
      for (int i = 0; i < threads; ++i) rig.other.count_thread();
      const Waits::Call there(rig.other, "gshmem_malloc");
      rig.of_other = later ? 5 : 4;  // PE 0 has reached the fourth collective
      (void)rig.wait_for(1, "gshmem_barrier_all", 1);
      rig.look(6);
      REQUIRE(rig.raised.empty() == !(later && threads == 1));
      if (rig.raised.empty()) continue;
      CHECK(rig.raised.front() ==
            "gshmem_barrier_all: collective calls differ: PE 0 called gshmem_barrier_all, PE 1 "
            "called gshmem_malloc");
    }
  }
}

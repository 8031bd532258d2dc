// Collectives by packets between two members that are threads of the test: what their buffers held
// before plays no part, and a member that does not come is named.
#include <gshmem/device/collective.h>

#include "tests/patience.h"
#include "tests/unit/no_launch.h"

#include <catch2/catch.hpp>

#include <sched.h>

#include <array>
#include <cstdint>
#include <thread>
#include <vector>

namespace gshmem::device {
namespace {

constexpr std::size_t kBytes = 1024;

/// A heap of each PE: what programs allocate, then the packets of team 0.
struct Heap {
  std::array<std::uint8_t, kBytes> source;
  std::array<std::uint8_t, 2 * kBytes> dest[2];
  std::array<std::array<std::uint64_t, abi::kPackets>, 2> packets;
  abi::SyncSlot slot;
};

class Job {
 public:
  explicit Job(std::uint64_t timeout_ns) : heaps_(2) {
    for (int pe = 0; pe < 2; ++pe) {
      State& state = at(states_, pe);
      state.my_pe = pe;
      state.n_pes = state.mapped_count = 2;
      state.heap = reinterpret_cast<char*>(&heap(pe));
      state.heap_bytes = offsetof(Heap, packets);
      state.stride = sizeof(Heap);
      state.control = &at(controls_, pe);
      state.fault_policy = abi::FaultPolicy::kReport;
      state.timeout_ns = timeout_ns;
      state.team_slots = &heap(pe).slot;
      at(teams_, pe) = {nullptr, 0, 1, 2, pe, 0, 1, 1, {kBytes, kBytes, kBytes, kBytes, 0, kBytes}};
    }
  }
  [[nodiscard]] Heap& heap(int pe) { return heaps_[static_cast<std::size_t>(pe)]; }
  [[nodiscard]] const abi::Control& control(int pe) { return at(controls_, pe); }
  static std::uint8_t byte(int pe, int call, std::size_t i) {
    return static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(call * 2 + pe) * 31);
  }
  /// Whether call `call` of PE `pe` succeeds, and brings what both have given.
  bool fcollects(int pe, int call, std::size_t bytes) {
    Heap& mine = heap(pe);
    for (std::size_t i = 0; i < bytes; ++i) mine.source[i] = byte(pe, call, i);
    std::uint8_t* const dest = mine.dest[call % 2].data();
    if (fcollect(Thread{}, TeamCall{&at(states_, pe), "test", &at(teams_, pe), dest,
                                    mine.source.data(), bytes}) != 0)
      return false;
    for (std::size_t i = 0; i < 2 * bytes; ++i) {
      if (dest[i] != byte(i < bytes ? 0 : 1, call, i % bytes)) return false;
    }
    return true;
  }

 private:
  template <class T>
  static T& at(std::array<T, 2>& of, int pe) {
    return of[static_cast<std::size_t>(pe)];
  }
  std::vector<Heap> heaps_;
  std::array<State, 2> states_;
  std::array<abi::Control, 2> controls_{};
  std::array<abi::Team, 2> teams_{};
};

TEST_CASE("packets_of_calls_long_ago_are_not_taken_where_flags_begin_again") {
  for (const std::uint32_t first : {0x7ffffffau, 0xfffffffau}) {
    Job job(30'000'000'000ull * test::kPatience);
    for (int pe = 0; pe < 2; ++pe) {
      job.heap(pe).slot.packets = first;
      // What the first two calls after the flags begin again would take for theirs.
      for (std::uint64_t buffer = 0; buffer < 2; ++buffer)
        job.heap(pe).packets[buffer].fill((kPacketFlag | buffer) << 32 | 0xeeeeeeeeu);
    }
    const auto make_calls = [&](int pe) {
      int good = 0;
      for (int call = 0; call < 12; ++call) {
        for (int i = 0; i < (call + pe) % 2 * 100; ++i) sched_yield();  // the others wait
        good += job.fcollects(pe, call, call < 5 ? 8 : kBytes)
                    ? 1
                    : 0;  // long from where they begin again
      }
      return good;
    };
    int theirs = 0;
    std::thread other([&] { theirs = make_calls(1); });
    CHECK(make_calls(0) == 12);
    other.join();
    CHECK(theirs == 12);
    CHECK(job.heap(0).slot.packets == first + 12);
  }
}

TEST_CASE("a_member_that_sends_no_packets_is_named_and_ends_the_call") {
  Job job(1'000'000);
  CHECK_FALSE(job.fcollects(0, 0, kBytes));
  CHECK(job.control(0).fault.code == GSHMEMX_ERROR_TIMEOUT);
  CHECK(job.control(0).fault.pe == 1);
}

}  // namespace
}  // namespace gshmem::device

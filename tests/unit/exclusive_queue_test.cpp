// Tests a queue of one thread whose NIC consumes nothing, on a PE that is stopped.
#include <gshmem/abi/queue_shape.h>
#include <gshmem/device/network/network_path.h>

#include "tests/unit/no_launch.h"

#include <catch2/catch.hpp>

#include <array>
#include <cstdint>

using namespace gshmem;
using namespace gshmem::device;

namespace {

class StoppedPe {
 public:
  static constexpr std::uint32_t kDepth = 64;

  StoppedPe() {
    completion_ = abi::Be32(static_cast<std::uint32_t>(abi::CompletionOpcode::kInvalid) << 4);
    view_.entries = entries_.data();
    view_.doorbell = &doorbell_;
    view_.send_record = &record_;
    view_.completion = &completion_;
    view_.cursor = &cursor_;
    state_.fault_policy = abi::FaultPolicy::kReport;
    state_.control = &control_;
    state_.heap = heap_.data();
    state_.heap_bytes = heap_.size();
    state_.nic.queues = &view_;
    state_.nic.cursors = &cursor_;
    state_.nic.used = &used_;
    state_.nic.count = state_.nic.per_pe = 1;
    state_.nic.map = abi::QueueMap::kPe;
    state_.nic.max_message = 4096;
    state_.nic.traits =
        abi::traits_of({.depth = kDepth, .batch = kDepth / 4, .kind = abi::QueueKind::kExclusive});
    view_.number = 1;  // connected
    control_.stop = 1;
  }
  [[nodiscard]] const abi::DeviceState& state() const { return state_; }
  char* heap() { return heap_.data(); }
  /// Every reserved entry was published.
  [[nodiscard]] bool whole() const {
    return cursor_.reserved == abi::PublishedWord::end(cursor_.ready);
  }
  [[nodiscard]] std::uint64_t reserved() const { return cursor_.reserved; }

 private:
  alignas(64) std::array<char, std::size_t{kDepth} * 64> entries_{};
  alignas(64) std::array<char, 4096> heap_{};
  std::uint64_t doorbell_ = 0;
  abi::Be32 record_{}, completion_{};
  abi::QueueView view_{};
  abi::QueueCursor cursor_{};
  abi::Control control_{};
  std::uint32_t used_ = 0;
  abi::DeviceState state_{};
};

}  // namespace

TEST_CASE("a_call_that_finds_no_room_in_an_exclusive_queue_leaves_no_hole") {
  StoppedPe pe;
  for (std::uint32_t i = 0; i < StoppedPe::kDepth; ++i) {
    nic::put_word(pe.state(), pe.heap(), i, sizeof(std::uint64_t), 0);
  }
  REQUIRE(pe.whole());
  const std::uint64_t full = pe.reserved();
  nic::put_word(pe.state(), pe.heap(), 1, sizeof(std::uint64_t), 0);  // the short path
  CHECK(pe.whole());
  const std::array<char, 100> elsewhere{};
  nic::put(Thread{}, pe.state(), pe.heap(), elsewhere.data(), elsewhere.size(), 0,
           nic::Reuse::kAtQuiet);  // the long path
  CHECK(pe.whole());
  CHECK(pe.reserved() == full);
}

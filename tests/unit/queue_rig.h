// A PE without a job: a heap, and one queue whose completions the test writes. For tests of device
// code alone, in one thread.
#pragma once

#include <gshmem/abi/queue_shape.h>
#include <gshmem/device/api/api_context.h>

#include <cstring>
#include <vector>

namespace gshmem::device {

class QueueRig {
 public:
  static constexpr std::uint32_t kDepth = 64;
  enum class Reach { kMapped, kNetwork };

  explicit QueueRig(Reach reach)
      : heap_(abi::kInternalBytes + kHeapBytes), entries_(std::size_t{kDepth} * 64) {
    std::memset(completion_, 0xff, sizeof(completion_));
    view_.entries = entries_.data();
    view_.doorbell = &doorbell_;
    view_.send_record = &record_;
    view_.completion = reinterpret_cast<const abi::Be32*>(completion_ + 60);
    view_.cursor = &cursor_;
    view_.number = kNumber;
    view_.pe = 0;
    state_.magic = abi::kStateMagic;
    state_.n_pes = 1;
    state_.my_pe = 0;
    state_.heap = heap_.data();
    state_.heap_bytes = heap_.size();
    state_.team_slots = reinterpret_cast<abi::SyncSlot*>(heap_.data());
    state_.host_teams = &world_;
    state_.n_teams = 1;
    state_.control = &control_;
    state_.fault_policy = abi::FaultPolicy::kReport;
    state_.timeout_ns = 1'000'000;
    if (reach == Reach::kMapped) {
      state_.mapped_count = 1;
      return;
    }
    state_.nic.queues = &view_;
    state_.nic.cursors = &cursor_;
    state_.nic.used = &used_;
    state_.nic.count = state_.nic.per_pe = state_.nic.rails = 1;
    state_.nic.map = abi::QueueMap::kPe;
    state_.nic.max_message = 1 << 20;
    state_.nic.traits = abi::traits_of({.depth = kDepth, .batch = kDepth / 4});
  }

  static constexpr std::size_t kHeapBytes = 16384;
  static constexpr std::uint32_t kNumber = 0x1234;
  [[nodiscard]] const State& state() const { return state_; }
  [[nodiscard]] char* heap() { return heap_.data() + abi::kInternalBytes; }
  [[nodiscard]] const abi::QueueView& view() const { return view_; }
  [[nodiscard]] abi::QueueCursor& cursor() { return cursor_; }
  [[nodiscard]] const abi::Control& control() const { return control_; }
  void set_timeout(std::uint64_t ns) { state_.timeout_ns = ns; }
  void set_map(abi::QueueMap map) { state_.nic.map = map; }
  /// Makes its one team synchronize in rounds.
  void set_rounds() {
    world_.flat = 0;
    state_.all_pes = 1;
  }
  /// Completes entry `index` and all before it.
  void complete(std::uint16_t index) {
    completion_[60] = static_cast<std::uint8_t>(index >> 8);
    completion_[61] = static_cast<std::uint8_t>(index);
    completion_[63] = 0;
  }
  /// Returns all memory that other threads or PEs may see.
  [[nodiscard]] std::vector<char> snapshot() const {
    std::vector<char> all(heap_);
    const std::uint64_t cursors[] = {cursor_.reserved, cursor_.ready, cursor_.done};
    const auto* bytes = reinterpret_cast<const char*>(cursors);
    all.insert(all.end(), bytes, bytes + sizeof(cursors));
    return all;
  }

 private:
  std::vector<char> heap_, entries_;
  std::uint64_t doorbell_ = 0;
  abi::Be32 record_{};
  std::uint8_t completion_[64];
  abi::QueueView view_{};
  abi::QueueCursor cursor_{};
  abi::Control control_{};
  abi::Team world_{nullptr, 0, 1, 1, 0, 0, 1};
  std::uint32_t used_ = 0;
  State state_{};
};

}  // namespace gshmem::device

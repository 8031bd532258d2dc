// PEs in one process, each with groups of lanes (lanes.h), and a NIC for those that do not map each
// other. Included before all device code.
#pragma once

#define GSHMEM_MACHINE <tests/unit/lanes/machine.h>
#include <gshmem/abi/queue_shape.h>
#include <gshmem/device/api/api_tile.h>

#include "tests/unit/no_launch.h"
#include "transport/nic/decode.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

namespace gshmem::test {

using device::State;

/// A team of all PEs: which of them map each other, and how they synchronize.
struct Shape {
  const char* name;
  int pes, lanes;           ///< lanes of a group
  int groups;               ///< groups of a PE, which take turns
  int domain;               ///< number of consecutive PEs that map each other
  bool flat;                ///< Team::flat
  bool listed = false;      ///< the team is not one of DeviceState::all_pes
  bool levels = false;      ///< a team in two levels
  std::uint32_t limit = 0;  ///< limit of every algorithm
};

class Job {
 public:
  static constexpr std::size_t kUserBytes = 16384;
  explicit Job(const Shape& shape) : shape_(shape), pes_(static_cast<std::size_t>(shape.pes)) {
    heaps_.reset(static_cast<char*>(std::calloc(pes_.size(), kHeapBytes)));
    for (int pe = 0; pe < shape.pes; ++pe) set_up(pe);
  }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] const State& state(int pe) const { return at(pe).state; }
  [[nodiscard]] char* memory(int pe) const { return heap(pe) + abi::kInternalBytes; }
  [[nodiscard]] const abi::Team& team(int pe) const {
    return at(pe).teams[shape_.listed ? kListed : 0];
  }

  [[nodiscard]] bool is_stopped(int pe) const { return at(pe).control.stop != 0; }

  /// Executes an entry of one queue.
  bool step_nic() {
    for (std::size_t i = 0; i < pes_.size() * pes_.size(); ++i) {
      next_ = (next_ + 1) % (pes_.size() * pes_.size());
      if (execute(*pes_[next_ / pes_.size()], next_ % pes_.size())) return true;
    }
    return false;
  }
  /// Lanes are numbered by PE, then by group.
  [[nodiscard]] std::size_t lanes() const { return pes_.size() * lanes_of_pe(); }
  [[nodiscard]] std::size_t lanes_of_pe() const {
    return static_cast<std::size_t>(shape_.groups * shape_.lanes);
  }
  LaneGroup lane(std::size_t i) {
    const std::size_t width = static_cast<std::size_t>(shape_.lanes);
    Pe& pe = *pes_[i / lanes_of_pe()];
    return {&pe.groups[i % lanes_of_pe() / width], static_cast<int>(i % width)};
  }
  /// Sets the state after so many collectives by packets, whose packets are gone.
  void set_packets(std::uint32_t calls) {
    for (const std::unique_ptr<Pe>& pe : pes_) {
      pe->state.team_slots->packets = calls;
      std::memset(pe->state.heap + pe->state.heap_bytes, 0, kPacketBytes);
    }
  }

 private:
  static constexpr std::uint32_t kDepth = 64, kListed = 1, kTeams = 2;
  static constexpr std::size_t kPacketBytes = kTeams * 2 * abi::kPackets * abi::kPacketBytes;
  static constexpr std::size_t kHeapBytes = abi::kInternalBytes + kUserBytes + kPacketBytes;
  struct Queue {
    alignas(64) std::array<std::uint8_t, kDepth * nic::kEntryBytes> entries{};
    alignas(64) std::array<std::uint8_t, 64> completion{};
    std::uint64_t doorbell = 0, consumed = 0;
    abi::Be32 record{};
    std::vector<nic::Wqe> fetched = {};  ///< fetched and not executed
    std::uint16_t last = 0;              ///< the last one of those entries
  };
  struct Pe {
    State state{};
    abi::Control control{};
    std::array<abi::Team, kTeams> teams{};
    std::vector<Lanes::Group> groups;
    std::uint32_t used = 0;
    std::vector<Queue> queues;
    std::vector<abi::QueueView> views;
    std::vector<abi::QueueCursor> cursors;
  };
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  [[nodiscard]] Pe& at(int pe) const { return *pes_[static_cast<std::size_t>(pe)]; }
  [[nodiscard]] char* heap(int pe) const {
    return heaps_.get() + static_cast<std::size_t>(pe) * kHeapBytes;
  }
  void set_up(int number);
  void set_up_queues(Pe& pe);
  bool execute(Pe& pe, std::size_t to);
  static nic::Wqe fetch(const Queue& queue);
  static bool is_write(const nic::Wqe& wqe) { return wqe.kind == nic::WqeKind::kWrite; }
  void move(Pe& pe, std::size_t to, const nic::Wqe& wqe);

  Shape shape_;
  std::unique_ptr<char, Free> heaps_;
  std::vector<std::unique_ptr<Pe>> pes_;
  std::size_t next_ = 0;
};

inline void Job::set_up(int number) {
  pes_[static_cast<std::size_t>(number)] = std::make_unique<Pe>();
  Pe& pe = at(number);
  pe.groups.assign(static_cast<std::size_t>(shape_.groups), {shape_.lanes});
  State& state = pe.state;
  state.magic = abi::kStateMagic;
  state.my_pe = number;
  state.n_pes = shape_.pes;
  state.heap = heap(number);
  state.heap_bytes = abi::kInternalBytes + kUserBytes;
  state.stride = static_cast<std::int64_t>(kHeapBytes);
  state.mapped_first = number / shape_.domain * shape_.domain;
  state.mapped_count = shape_.domain;
  state.control = &pe.control;
  state.fault_policy = abi::FaultPolicy::kReport;
  state.timeout_ns = 1'000'000;
  state.host_teams = pe.teams.data();
  state.n_teams = kTeams;
  // The slots follow the library's own area.
  constexpr std::size_t kSlots = (sizeof(abi::InternalArea) + 127) / 128 * 128;
  static_assert(kSlots + kTeams * sizeof(abi::SyncSlot) <= abi::kInternalBytes);
  state.team_slots = reinterpret_cast<abi::SyncSlot*>(state.heap + kSlots);
  state.all_pes = 1 | (shape_.flat ? abi::kAllPesFlat : 0);
  const bool mapped = shape_.domain == shape_.pes;
  for (std::uint32_t i = 0; i < kTeams; ++i) {
    abi::Team& team = pe.teams[i];
    team = {nullptr, 0, 1, shape_.pes, number, i, shape_.flat ? 1u : 0u, mapped ? 1u : 0u};
    for (std::uint32_t& limit : team.limits) limit = shape_.limit;
    if (shape_.levels) team.inner = shape_.domain, team.inner_stride = 1;
  }
  if (!mapped) set_up_queues(pe);
}

inline void Job::set_up_queues(Pe& pe) {
  const std::size_t n = pes_.size();
  pe.queues.resize(n);
  pe.views.resize(n);
  pe.cursors.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    Queue& queue = pe.queues[i];
    queue.completion.fill(0xff);
    abi::QueueView& view = pe.views[i];
    view.entries = reinterpret_cast<char*>(queue.entries.data());
    view.doorbell = &queue.doorbell;
    view.send_record = &queue.record;
    view.completion = reinterpret_cast<const abi::Be32*>(queue.completion.data() + 60);
    view.cursor = &pe.cursors[i];
    view.number = static_cast<std::uint32_t>(0x100 + i);
    view.index = static_cast<std::uint32_t>(i);
    view.pe = static_cast<decltype(view.pe)>(i);
  }
  abi::NicView& nic = pe.state.nic;
  nic.queues = pe.views.data();
  nic.cursors = pe.cursors.data();
  nic.used = &pe.used;
  nic.count = static_cast<std::uint32_t>(n);
  nic.per_pe = 1;
  nic.map = abi::QueueMap::kPe;
  nic.max_message = 1 << 20;
  nic.traits = abi::traits_of({.depth = kDepth, .batch = kDepth / 4});
}

/// Consecutive WRITEs arrive last to first: nothing orders them in memory before they are complete.
inline bool Job::execute(Pe& pe, std::size_t to) {
  if (pe.queues.empty()) return false;
  Queue& queue = pe.queues[to];
  const std::uint64_t end = abi::PublishedWord::end(pe.cursors[to].ready);
  if (queue.consumed == end && queue.fetched.empty()) return false;
  while (queue.fetched.empty() || (queue.consumed < end && is_write(queue.fetched.back()))) {
    nic::Wqe wqe = fetch(queue);
    if (!queue.fetched.empty() && !is_write(wqe)) break;
    queue.consumed += wqe.entries();
    queue.last = wqe.index;
    queue.fetched.push_back(std::move(wqe));
  }
  move(pe, to, queue.fetched.back());
  queue.fetched.pop_back();
  if (!queue.fetched.empty()) return true;
  queue.completion[60] = static_cast<std::uint8_t>(queue.last >> 8);
  queue.completion[61] = static_cast<std::uint8_t>(queue.last);
  queue.completion[63] = 0;
  return true;
}

/// Longer entries may wrap around.
inline nic::Wqe Job::fetch(const Queue& queue) {
  std::array<std::uint8_t, nic::kMaxWqeBytes> bytes{};
  const auto copy_entry = [&](std::uint64_t i) {
    std::memcpy(bytes.data() + i * nic::kEntryBytes,
                queue.entries.data() + (queue.consumed + i) % kDepth * nic::kEntryBytes,
                nic::kEntryBytes);
  };
  copy_entry(0);
  const std::size_t length = nic::wqe_bytes(bytes.data());
  for (std::uint64_t i = 1; i * nic::kEntryBytes < length; ++i) copy_entry(i);
  const nic::DecodeResult result = nic::decode_wqe(bytes.data(), length);
  if (!result.reason.empty()) throw std::logic_error(result.reason);
  return result.wqe;
}

inline void Job::move(Pe& pe, std::size_t to, const nic::Wqe& wqe) {
  char* there = heap(static_cast<int>(to)) + wqe.remote_address;
  if (!is_write(wqe) && wqe.kind != nic::WqeKind::kRead)
    throw std::logic_error("an entry that collectives do not make");
  std::memcpy(there, wqe.inline_payload.data(), wqe.inline_payload.size());
  there += wqe.inline_payload.size();
  for (const nic::LocalPiece& piece : wqe.local) {
    char* const here = pe.state.heap + piece.address;
    std::memcpy(is_write(wqe) ? there : here, is_write(wqe) ? here : there, piece.bytes);
    there += piece.bytes;
  }
}

}  // namespace gshmem::test

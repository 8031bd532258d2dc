// The contexts and queue handles of a PE: which are open, the queues they have, and what device
// code finds by a handle (device/pe/context.h). States are made when queues are and never change;
// opening a context only enters one. Invariant: entries that were ever used come first.
#pragma once

#include <gshmem/abi/state.h>
#include <gshmem/constants.h>
#include <gshmem/types.h>

#include "transport/nic/queue_set.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace gshmem {

/// One thread at a time may use a context, or any number.
enum class ContextUse { kShared, kExclusive };

class ContextTable {
 public:
  /// Where kernels read: zeroed memory, and writing to it. Both empty in CPU mode.
  struct DeviceMemory {
    std::function<void*(std::size_t bytes)> allocate;
    std::function<void(void* to, const void* from, std::size_t bytes)> upload;
  };
  explicit ContextTable(DeviceMemory memory);
  ContextTable(const ContextTable&) = delete;

  /// Enters the tables into the PE's state.
  void enter(abi::DeviceState& state) const;
  /// `state` is complete: contexts are it with other queues.
  void start(const abi::DeviceState& state);

  // Queues for contexts. Those of closed ones are used again.
  using Queues = std::vector<std::size_t>;
  void add(const std::vector<nic::ContextQueues>& queues);
  /// Takes up to `wanted`.
  [[nodiscard]] Queues take(std::size_t wanted);
  void give_back(const Queues& queues);

  /// A context that numbers PEs as `team` does, with queues `queues.back()`, which it takes out;
  /// with the PE's own ones where it is empty. Errors: GSHMEMX_ERROR_OUT_OF_MEMORY when all handles
  /// are open.
  [[nodiscard]] std::int32_t open(const char* call, ContextUse use, Queues& queues,
                                  gshmem_team_t team = GSHMEM_TEAM_WORLD);
  /// Its state for host threads. Null when `handle` is not open; the PE's own state is no handle's.
  [[nodiscard]] const abi::DeviceState* find(std::int32_t handle) const;
  /// GSHMEM_TEAM_INVALID when `handle` is not open.
  [[nodiscard]] gshmem_team_t team_of(std::int32_t handle) const;
  /// Nobody uses it any more, and its queues are quiet.
  void close(std::int32_t handle);
  [[nodiscard]] std::vector<std::int32_t> open_handles() const;

 private:
  /// A state as host threads and as kernels read it.
  struct State {
    const abi::DeviceState* host = nullptr;
    const abi::DeviceState* device = nullptr;
  };
  struct Pair {
    State shared, exclusive;
  };
  static constexpr std::size_t kOwn = SIZE_MAX;  ///< the queues of the PE's own state
  struct Slot {
    std::uint32_t generation = 0;
    std::uint32_t handle = 0;  ///< 0: closed
    std::size_t queues = kOwn;
  };
  [[nodiscard]] State make_state(const abi::NicView& queues);
  [[nodiscard]] const Slot* slot_of(std::int32_t handle) const;
  void write(std::size_t slot, const State& state, std::uint32_t handle, std::uint32_t team);

  DeviceMemory memory_;
  mutable std::mutex mutex_;
  std::vector<abi::ContextEntry> host_entries_;
  abi::ContextEntry* device_entries_;
  abi::DeviceState base_;
  std::deque<abi::DeviceState> states_;
  State own_;
  std::vector<Pair> queues_;
  Queues free_;
  std::vector<Slot> slots_;
};

}  // namespace gshmem

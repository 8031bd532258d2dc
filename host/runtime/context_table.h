// The contexts and queue handles of a PE: which are open, which queues they have, and the data that
// device code finds by a handle (device/pe/context.h). States are made together with queues and
// never change. To open a context, the table only stores its state in an entry. Invariant: entries
// that were ever used come first.
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

/// Whether one thread at a time may use a context, or any number.
enum class ContextUse { kShared, kExclusive };

class ContextTable {
 public:
  /// Allocates zeroed memory for kernels, and writes to it. Both are empty in CPU mode.
  struct DeviceMemory {
    std::function<void*(std::size_t bytes)> allocate;
    std::function<void(void* to, const void* from, std::size_t bytes)> upload;
  };
  explicit ContextTable(DeviceMemory memory);
  ContextTable(const ContextTable&) = delete;

  /// Stores the addresses of the tables in the PE's state.
  void enter(abi::DeviceState& state) const;
  /// Begins to make contexts, which are copies of `state` with other queues. `state` must be
  /// complete.
  void start(const abi::DeviceState& state);

  // Queues for contexts. Those of closed contexts are reused.
  using Queues = std::vector<std::size_t>;
  void add(const std::vector<nic::ContextQueues>& queues);
  /// Takes up to `wanted` queues.
  [[nodiscard]] Queues take(std::size_t wanted);
  void release(const Queues& queues);

  /// Opens a context that numbers PEs as `team` does. It takes the queues `queues.back()` out of
  /// the list; if the list is empty, the context uses the PE's own queues. Errors:
  /// GSHMEMX_ERROR_OUT_OF_MEMORY when all handles are open.
  [[nodiscard]] std::int32_t open(const char* call, ContextUse use, Queues& queues,
                                  gshmem_team_t team = GSHMEM_TEAM_WORLD);
  /// Returns the state of a context for host threads. Null when `handle` is not open; the PE's own
  /// state has no handle.
  [[nodiscard]] const abi::DeviceState* find(std::int32_t handle) const;
  /// Returns GSHMEM_TEAM_INVALID when `handle` is not open.
  [[nodiscard]] gshmem_team_t team_of(std::int32_t handle) const;
  /// Closes a context that is no longer used, and whose queues are quiet.
  void close(std::int32_t handle);
  [[nodiscard]] std::vector<std::int32_t> open_handles() const;

 private:
  /// The addresses of a state for host threads and for kernels.
  struct State {
    const abi::DeviceState* host = nullptr;
    const abi::DeviceState* device = nullptr;
  };
  struct Pair {
    State shared, exclusive;
  };
  static constexpr std::size_t kOwn = SIZE_MAX;  ///< means the queues of the PE's own state
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

#include "host/runtime/context_table.h"

#include "host/base/error.h"

#include <gshmem/device/core/order_check.h>

#include <algorithm>

namespace gshmem {
namespace {

constexpr std::uint32_t kSlotBits = 10;
static_assert(1u << kSlotBits == abi::kMaxContexts);
/// Handles are positive and below GSHMEMX_QP_ALL; those without kTeamContext begin at
/// kFirstContext.
constexpr std::uint32_t kLastGeneration = (abi::kTeamContext >> kSlotBits) - 2;
static_assert(1u << kSlotBits >= abi::kFirstContext);

}  // namespace

ContextTable::ContextTable(DeviceMemory memory)
    : memory_(std::move(memory)), host_entries_(abi::kMaxContexts), slots_(abi::kMaxContexts) {
  device_entries_ = memory_.allocate ? static_cast<abi::ContextEntry*>(memory_.allocate(
                                           sizeof(abi::ContextEntry) * abi::kMaxContexts))
                                     : host_entries_.data();
}

void ContextTable::enter(abi::DeviceState& state) const {
  state.contexts = device_entries_;
  state.host_contexts = host_entries_.data();
}

void ContextTable::start(const abi::DeviceState& state) {
  base_ = state;
  own_ = make_state(base_.nic);
}

ContextTable::State ContextTable::make_state(const abi::NicView& queues) {
  abi::DeviceState& made = states_.emplace_back(base_);
  made.nic = queues;
  State state{&made, &made};
  if (memory_.allocate) {
    void* copy = memory_.allocate(sizeof(made));
    memory_.upload(copy, &made, sizeof(made));
    state.device = static_cast<const abi::DeviceState*>(copy);
  }
  return state;
}

void ContextTable::add(const std::vector<nic::ContextQueues>& queues) {
  const std::lock_guard lock(mutex_);
  for (const nic::ContextQueues& each : queues) {
    free_.push_back(queues_.size());
    queues_.push_back({make_state(each.shared), make_state(each.exclusive)});
  }
}

ContextTable::Queues ContextTable::take(std::size_t wanted) {
  const std::lock_guard lock(mutex_);
  const auto first = free_.end() - static_cast<std::ptrdiff_t>(std::min(wanted, free_.size()));
  Queues taken(first, free_.end());
  free_.erase(first, free_.end());
  return taken;
}

void ContextTable::release(const Queues& queues) {
  const std::lock_guard lock(mutex_);
  free_.insert(free_.end(), queues.begin(), queues.end());
}

/// The state is stored before the handle: a thread that sees the handle sees its state. Pairs with
/// find_context.
void ContextTable::write(std::size_t slot, const State& state, std::uint32_t handle,
                         std::uint32_t team) {
  abi::ContextEntry& entry = host_entries_[slot];
  __atomic_store_n(&entry.team, team, __ATOMIC_RELAXED);
  __atomic_store_n(&entry.state, state.host, __ATOMIC_RELEASE);
  __atomic_store_n(&entry.handle, handle, __ATOMIC_RELEASE);
  if (!memory_.allocate) return;
  const abi::ContextEntry copy{state.device, handle, team};
  memory_.upload(&device_entries_[slot], &copy, sizeof(copy));
}

std::int32_t ContextTable::open(const char* call, ContextUse use, Queues& queues,
                                gshmem_team_t team) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(slots_, 0, &Slot::handle);
  if (found == slots_.end()) {
    throw Answer(GSHMEMX_ERROR_OUT_OF_MEMORY,
                 strprintf("%s: all %u contexts and queue handles are in use; destroy some", call,
                           abi::kMaxContexts));
  }
  const auto at = static_cast<std::uint32_t>(found - slots_.begin());
  State state = own_;
  GSHMEM_ORDER(state = make_state(base_.nic);)  // the checker identifies contexts by their states
  found->queues = kOwn;
  if (!queues.empty()) {
    found->queues = queues.back();
    queues.pop_back();
    const Pair& pair = queues_[found->queues];
    state = use == ContextUse::kExclusive ? pair.exclusive : pair.shared;
  }
  found->generation = found->generation % kLastGeneration + 1;
  found->handle = found->generation << kSlotBits | at;
  if (team != GSHMEM_TEAM_WORLD) found->handle |= abi::kTeamContext;
  write(at, state, found->handle, static_cast<std::uint32_t>(team));
  return static_cast<std::int32_t>(found->handle);
}

const ContextTable::Slot* ContextTable::slot_of(std::int32_t handle) const {
  const Slot& slot = slots_[static_cast<std::uint32_t>(handle) & (abi::kMaxContexts - 1)];
  return handle > 0 && slot.handle == static_cast<std::uint32_t>(handle) ? &slot : nullptr;
}

const abi::DeviceState* ContextTable::find(std::int32_t handle) const {
  const std::lock_guard lock(mutex_);
  const Slot* slot = slot_of(handle);
  return slot ? host_entries_[static_cast<std::size_t>(slot - slots_.data())].state : nullptr;
}

gshmem_team_t ContextTable::team_of(std::int32_t handle) const {
  const std::lock_guard lock(mutex_);
  const Slot* slot = slot_of(handle);
  if (!slot) return GSHMEM_TEAM_INVALID;
  return static_cast<gshmem_team_t>(
      host_entries_[static_cast<std::size_t>(slot - slots_.data())].team);
}

void ContextTable::close(std::int32_t handle) {
  const std::lock_guard lock(mutex_);
  const Slot* found = slot_of(handle);
  if (!found) return;
  const auto at = static_cast<std::size_t>(found - slots_.data());
  if (found->queues != kOwn) free_.push_back(found->queues);
  slots_[at].handle = 0;
  write(at, own_, 0, 0);
}

std::vector<std::int32_t> ContextTable::open_handles() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::int32_t> handles;
  for (const Slot& slot : slots_) {
    if (slot.handle != 0) handles.push_back(static_cast<std::int32_t>(slot.handle));
  }
  return handles;
}

}  // namespace gshmem

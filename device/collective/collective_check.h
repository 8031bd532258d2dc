// Checks that the members of a team make the same collective, if arguments are checked. Each member
// writes a note of its call in its slot. After the call it compares its note with that of the next
// member. During a long wait it compares with the member that it waits for. Both require that the
// member's memory is mapped. Members whose calls differ would wait for each other until
// GSHMEM_TIMEOUT, or get a meaningless result.
#pragma once

#include "../pe/check.h"
#include "team_call.h"

namespace gshmem::device {

/// Encodes a call: its operation, and the number of the root or the type of the elements.
GSHMEM_FN std::uint64_t call_of(CallKind kind, int root = 0) {
  return static_cast<std::uint64_t>(kind) << 32 | static_cast<std::uint32_t>(root);
}
GSHMEM_FN std::uint64_t call_of(CallKind kind, ReduceOp op, ElementType type) {
  return static_cast<std::uint64_t>(kind) << 32 | static_cast<std::uint64_t>(op) << 40 |
         static_cast<std::uint64_t>(type) << 48;
}

/// Writes the note of the next call. Its key identifies the call: the numbers of syncs and of
/// packet calls are the same on all members between two calls. One thread of a group does it,
/// before the members synchronize.
GSHMEM_OUTLINE void note_call(const TeamCall& call, std::uint64_t kind, std::uint64_t bytes) {
  abi::SyncSlot* const slot = slot_of(call);
  const std::uint32_t number = slot->noted++;
  abi::CallNote& note = slot->notes[number % 2];
  store_relaxed(&note.key, std::uint64_t{0});
  fence_release_system();
  store_relaxed(&note.what, kind);
  store_relaxed(&note.bytes, bytes);
  fence_release_system();
  store_flag(&note.key, std::uint64_t{1} << 63 | load_relaxed(&slot->epoch) << 33 >> 1 |
                            load_relaxed(&slot->packets));
}

/// Returns false, and reports a fault that names the first difference, if member `i` is in another
/// call than this PE's last one. Returns true if no difference was seen.
GSHMEM_OUTLINE bool members_agree(const TeamCall& call, int i) {
  const State& state = *call.state;
  const int pe = team_pe(*call.team, i);
  if (pe == state.my_pe || !is_mapped(state, pe)) return true;
  abi::SyncSlot* const slot = slot_of(call);
  const abi::CallNote& mine = slot->notes[(slot->noted - 1) % 2];
  const std::uint64_t key = load_relaxed(&mine.key);
  FaultInfo info{GSHMEMX_ERROR_SYMMETRY, call.name, "team"};
  info.pe = pe;
  GSHMEM_NO_UNROLL
  for (const abi::CallNote& note : slot->notes) {
    const abi::CallNote* const theirs = peer_address(state, &note, pe);
    if (load_acquire(&theirs->key) != key) continue;
    const std::uint64_t kind = load_relaxed(&theirs->what), bytes = load_relaxed(&theirs->bytes);
    fence_acquire_system();
    if (load_relaxed(&theirs->key) != key) continue;  // it has begun another call
    info.value = load_relaxed(&mine.what);
    info.limit = kind;
    if (info.value >> 32 != kind >> 32) {
      info.rule = abi::Rule::kSameCall;
    } else if (info.value != kind) {
      info.argument = "root";
      info.value = static_cast<std::uint32_t>(info.value);
      info.limit = static_cast<std::uint32_t>(kind);
      info.rule = abi::Rule::kSame;
    } else if (load_relaxed(&mine.bytes) != bytes) {
      info.argument = "nelems";
      info.value = load_relaxed(&mine.bytes);
      info.limit = bytes;
      info.rule = abi::Rule::kSameBytes;
    } else {
      continue;
    }
    fault(state, info);
    return false;
  }
  return true;
}

/// Calls `work()`, which executes the collective. Returns a status, on all threads of the group.
template <class Coop, class Work>
GSHMEM_FN int checked_collective(Coop coop, const TeamCall& call, std::uint64_t kind,
                                 std::uint64_t bytes, const Work& work) {
  if constexpr (!kChecks) {
    return work();
  } else {
    coop.sync();
    if (coop.thread_rank() == 0) note_call(call, kind, bytes);
    const int status = work();
    const int next = call.team->my_pe + 1 < call.team->n_pes ? call.team->my_pe + 1 : 0;
    const bool good = status != 0 || coop.thread_rank() != 0 || members_agree(call, next);
    sync_lanes(coop);
    return coop.any(!good) ? fault_code(*call.state) : status;
  }
}

/// Synchronizes all members of the call; what they did before is visible.
template <class Coop>
GSHMEM_FN int sync_call_members(Coop coop, const TeamCall& call) {
  const std::uint32_t index = team_index(call.team->handle);
  if constexpr (kChecks) {
    TeamCall all = call;  // members of a part of a team synchronize with the whole team
    all.team = team_entries(*call.state) + index;
    return sync_members(coop, *call.state, call.name, index,
                        [&](int i) { return members_agree(all, i); });
  } else {
    return sync_members(coop, *call.state, call.name, index);
  }
}

/// Data that was stored to mapped members is visible after the synchronization; other data has to
/// be completed.
template <class Coop>
GSHMEM_FN int end_collective(Coop coop, const TeamCall& call) {
  if (call.team->mapped == 0 && call.state->nic.queues) {
    coop.sync();
    nic::quiet(coop, *call.state, call.name);
  }
  return sync_call_members(coop, call);
}

}  // namespace gshmem::device

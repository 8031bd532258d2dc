// Whether the members of a team make the same collective, where arguments are checked. Each notes
// its call in its slot. It compares that with the note of a member whose memory it maps: of the one
// after it when the call is done, and of who is waited for when that takes long. Members whose
// calls differ would wait for each other until GSHMEM_TIMEOUT, or get what is no result.
#pragma once

#include "../pe/check.h"
#include "team_call.h"

namespace gshmem::device {

/// What is called: its operation, and the number of the root or the type of the elements.
GSHMEM_FN std::uint64_t call_of(CallKind kind, int root = 0) {
  return static_cast<std::uint64_t>(kind) << 32 | static_cast<std::uint32_t>(root);
}
GSHMEM_FN std::uint64_t call_of(CallKind kind, ReduceOp op, ElementType type) {
  return static_cast<std::uint64_t>(kind) << 32 | static_cast<std::uint64_t>(op) << 40 |
         static_cast<std::uint64_t>(type) << 48;
}

/// The note of the next call. By its key members find those of the same one: how often they have
/// synchronized, and sent packets, is the same for all between two calls. By one thread of a group,
/// before all meet.
GSHMEM_OUTLINE void note_call(const TeamCall& call, std::uint64_t what, std::uint64_t bytes) {
  abi::SyncSlot* const slot = slot_of(call);
  const std::uint32_t number = slot->noted++;
  abi::CallNote& note = slot->notes[number % 2];
  store_relaxed(&note.key, std::uint64_t{0});
  fence_release_system();
  store_relaxed(&note.what, what);
  store_relaxed(&note.bytes, bytes);
  fence_release_system();
  store_flag(&note.key, std::uint64_t{1} << 63 | load_relaxed(&slot->epoch) << 33 >> 1 |
                            load_relaxed(&slot->packets));
}

/// Member `i` has not been seen in another call than this PE's last one. Else that is a fault,
/// which names the first thing that differs.
GSHMEM_OUTLINE bool is_alike(const TeamCall& call, int i) {
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
    const std::uint64_t what = load_relaxed(&theirs->what), bytes = load_relaxed(&theirs->bytes);
    fence_acquire_system();
    if (load_relaxed(&theirs->key) != key) continue;  // it has begun another one
    info.value = load_relaxed(&mine.what);
    info.limit = what;
    if (info.value >> 32 != what >> 32) {
      info.rule = abi::Rule::kSameCall;
    } else if (info.value != what) {
      info.argument = "root";
      info.value = static_cast<std::uint32_t>(info.value);
      info.limit = static_cast<std::uint32_t>(what);
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

/// `work()`, which makes the call. A status, on all threads of the group.
template <class Coop, class Work>
GSHMEM_FN int alike(Coop coop, const TeamCall& call, std::uint64_t what, std::uint64_t bytes,
                    const Work& work) {
  if constexpr (!kChecks) {
    return work();
  } else {
    coop.sync();
    if (coop.thread_rank() == 0) note_call(call, what, bytes);
    const int status = work();
    const int next = call.team->my_pe + 1 < call.team->n_pes ? call.team->my_pe + 1 : 0;
    const bool good = status != 0 || coop.thread_rank() != 0 || is_alike(call, next);
    meet_lanes(coop);
    return coop.any(!good) ? fault_code(*call.state) : status;
  }
}

/// All members are in the call, with what they did before it.
template <class Coop>
GSHMEM_FN int meet_members(Coop coop, const TeamCall& call) {
  const std::uint32_t index = team_index(call.team->handle);
  if constexpr (kChecks) {
    TeamCall all = call;  // members of a part of a team meet all of it
    all.team = team_entries(*call.state) + index;
    return sync_members(coop, *call.state, call.name, index,
                        [&](int i) { return is_alike(all, i); });
  } else {
    return sync_members(coop, *call.state, call.name, index);
  }
}

/// What went to members by load and store is there for all who have met; the rest has to be waited
/// for.
template <class Coop>
GSHMEM_FN int end_collective(Coop coop, const TeamCall& call) {
  if (call.team->mapped == 0 && call.state->nic.queues) {
    coop.sync();
    nic::quiet(coop, *call.state, call.name);
  }
  return meet_members(coop, call);
}

}  // namespace gshmem::device

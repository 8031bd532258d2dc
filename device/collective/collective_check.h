// Checks that the members of a team make the same collective call, if arguments are checked. Each
// member writes a note of its call in its slot. After the call it compares its note with the note
// of the next member, if the memory of that one is mapped. Otherwise it puts its note there before
// the call, and the next member compares. During a long wait, a member compares its note with that
// of the mapped member that it waits for. Without the check, members whose calls differ would wait
// until GSHMEM_TIMEOUT, or get a meaningless result.
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

/// Writes the note of the next call. Its key identifies the call: between two calls, the numbers of
/// syncs and of packet calls are the same on all members. One thread of a group writes it, before
/// the members synchronize.
GSHMEM_OUTLINE void note_call(const TeamCall& call, std::uint64_t kind, std::uint64_t bytes) {
  abi::SyncSlot* const slot = slot_of(call);
  const std::uint32_t number = slot->noted++;
  abi::CallNote& note = slot->notes[number % 2];
  store_relaxed(&note.key, std::uint64_t{0});
  fence_release_system();
  store_relaxed(&note.what, kind);
  store_relaxed(&note.bytes, bytes);
  // With 0 elements `dest` may be null. The `dest` of a reducescatter may differ between members:
  // it may be the member's own part of `source`.
  const bool has_dest = static_cast<CallKind>(kind >> 32 & 0xff) != CallKind::kReducescatter &&
                        is_symmetric(*call.state, call.dest, 1);
  store_relaxed(&note.dest, has_dest ? as_value(call.dest) - as_value(call.state->heap) : 0);
  fence_release_system();
  store_flag(&note.key, std::uint64_t{1} << 63 | load_relaxed(&slot->epoch) << 33 >> 1 |
                            load_relaxed(&slot->packets));
}

GSHMEM_FN int next_member(const abi::Team& team) {
  return team.my_pe + 1 < team.n_pes ? team.my_pe + 1 : 0;
}
GSHMEM_FN int member_before(const abi::Team& team) {
  return (team.my_pe > 0 ? team.my_pe : team.n_pes) - 1;
}

/// Puts the note of this PE's call to the next member, if that one is not mapped. The quiet in
/// end_collective completes it: it has arrived when the next member leaves the call.
GSHMEM_OUTLINE void tell_next(const TeamCall& call) {
  const State& state = *call.state;
  const int pe = team_pe(*call.team, next_member(*call.team));
  if (pe == state.my_pe || is_mapped(state, pe)) return;
  abi::SyncSlot* const slot = slot_of(call);
  const std::uint32_t at = (slot->noted - 1) % 2;
  nic::put(Thread{}, state, slot->told + at, slot->notes + at, sizeof(abi::CallNote), pe,
           nic::Reuse::kAtQuiet);
}

/// Reads `note`, whose key was `key`. Meanwhile its PE may be writing the next note there.
GSHMEM_FN abi::CallNote read_note(const abi::CallNote& note, std::uint64_t key) {
  return {key, load_relaxed(&note.what), load_relaxed(&note.bytes), load_relaxed(&note.dest)};
}

/// Returns false, and reports a fault that names the first difference, if `mine` is another call
/// than `theirs`, the note of PE `pe`.
GSHMEM_OUTLINE bool is_same_call(const TeamCall& call, const abi::CallNote& mine,
                                 const abi::CallNote& theirs, int pe) {
  FaultInfo info{GSHMEMX_ERROR_SYMMETRY, call.name, "team"};
  info.pe = pe;
  const auto differs = [&](const char* argument, abi::Rule rule, std::uint64_t value,
                           std::uint64_t other) {
    info.argument = argument;
    info.rule = rule;
    info.value = value;
    info.limit = other;
    return value != other;
  };
  const abi::CallNote ours = read_note(mine, theirs.key);
  if (ours.what >> 32 != theirs.what >> 32) {
    differs("team", abi::Rule::kSameCall, ours.what, theirs.what);
  } else if (!differs("root", abi::Rule::kSame, ours.what << 32 >> 32, theirs.what << 32 >> 32) &&
             !differs("nelems", abi::Rule::kSameBytes, ours.bytes, theirs.bytes) &&
             (ours.dest == 0 || theirs.dest == 0 ||
              !differs("dest", abi::Rule::kSameArray, ours.dest, theirs.dest))) {
    return true;
  }
  fault(*call.state, info);
  return false;
}

/// Compares this PE's last call with the two last notes of PE `pe`, which begin at `first`. Returns
/// false, and reports a fault, if that PE is in another call. Returns true if no difference was
/// seen.
GSHMEM_OUTLINE bool notes_agree(const TeamCall& call, const abi::CallNote* first, int pe) {
  abi::SyncSlot* const slot = slot_of(call);
  const abi::CallNote& mine = slot->notes[(slot->noted - 1) % 2];
  const std::uint64_t key = load_relaxed(&mine.key);
  GSHMEM_NO_UNROLL
  for (const abi::CallNote* at = first; at != first + 2; ++at) {
#if defined(GSHMEM_ORDER_ON)  // reading the note of a later call must not order anything
    if (load_relaxed(&at->key) != key) continue;
#else
    if (load_acquire(&at->key) != key) continue;
#endif
    const abi::CallNote theirs = read_note(*at, key);
    fence_acquire_system();
    if (load_relaxed(&at->key) != key) continue;  // it has begun another call
    if (!is_same_call(call, mine, theirs, pe)) return false;
  }
  return true;
}
/// Compares with the note of member `i`, if that one is mapped.
GSHMEM_FN bool members_agree(const TeamCall& call, int i) {
  const int pe = team_pe(*call.team, i);
  if (pe == call.state->my_pe || !is_mapped(*call.state, pe)) return true;
  return notes_agree(call, peer_address(*call.state, slot_of(call)->notes, pe), pe);
}
/// Compares, after the call, with the note that the member before this one has put, if that one is
/// not mapped. While this PE was in its call, that member put no other note here.
GSHMEM_FN bool is_told_same(const TeamCall& call) {
  const int pe = team_pe(*call.team, member_before(*call.team));
  if (pe == call.state->my_pe || is_mapped(*call.state, pe)) return true;
  return notes_agree(call, slot_of(call)->told, pe);
}

#if defined(GSHMEM_ORDER_ON)
/// Tells the order checker about a collective. The checker then ignores loads and stores of the
/// collective itself. If the memory of the call is not known yet, it does not ignore them.
template <class Coop>
class OrderedCollective {
 public:
  OrderedCollective(Coop coop, const TeamCall& call, std::uint64_t kind, bool is_known = true)
      : coop_(coop),
        of_{call.state,
            call.team,
            static_cast<CallKind>(kind >> 32 & 0xff),
            static_cast<int>(kind),
            static_cast<char*>(call.dest),
            static_cast<const char*>(call.source),
            call.bytes} {
    const bool is_empty = of_.bytes == 0 && of_.kind != CallKind::kCollect;
    if (!is_known || is_empty || call.team->mapped == 0) return;
    checker_ = order::active();
    if (!checker_) return;
    coop_.sync();
    if (coop_.thread_rank() == 0) checker_->enter(of_);
    coop_.sync();
    checker_->ignore(true);
  }
  ~OrderedCollective() {
    if (!checker_) return;
    checker_->ignore(false);
    coop_.sync();
    if (coop_.thread_rank() == 0) checker_->leave(of_);
    coop_.sync();
  }
  OrderedCollective(const OrderedCollective&) = delete;

 private:
  Coop coop_;
  const order::Collective of_;
  order::Checker* checker_ = nullptr;
};
#endif

/// Calls `work()`, which executes the collective. Returns a status, on all threads of the group.
template <class Coop, class Work>
GSHMEM_FN int checked_collective(Coop coop, const TeamCall& call, std::uint64_t kind,
                                 std::uint64_t bytes, const Work& work) {
#if defined(GSHMEM_ORDER_ON)
  const bool is_known =
      kind != call_of(CallKind::kCollect) && kind != call_of(CallKind::kAlltoalls);
  const OrderedCollective<Coop> ordered(coop, call, kind, is_known);
#endif
  if constexpr (!kChecks) {
    return work();
  } else {
    coop.sync();
    if (coop.thread_rank() == 0) {
      note_call(call, kind, bytes);
      tell_next(call);
    }
    const int status = work();
    const bool good = status != 0 || coop.thread_rank() != 0 ||
                      (members_agree(call, next_member(*call.team)) && is_told_same(call));
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

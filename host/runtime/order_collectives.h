// Collectives for the order checker (docs/order-check.md). Included by order_checker.cpp only. A
// member that enters reads its source, and stores to `dest` of all members. A fiber makes these
// accesses. It is ordered after the entry, and before the return of the members that wait for it.
// The result is a store of the returning thread. Invariant: accesses of the algorithm itself are
// ignored meanwhile, and the accesses of two consecutive calls do not race with each other.
#pragma once

#include "host/runtime/order_tsan.h"

#include <gshmem/device/core/order_check.h>
#include <gshmem/device/pe/p2p.h>
#include <gshmem/device/pe/team.h>

#include <cstdlib>

namespace gshmem {

using device::CallKind;
using device::order::Collective;

/// The number of tags. Members of a team are only a few calls apart. A call may increment its
/// number by several syncs.
inline constexpr std::uint64_t kCallTags = 64;
/// ThreadSanitizer supports some 8,000 threads and fibers.
inline constexpr unsigned kMostCallFibers = 2048;

/// The calls of one member of a team, identified by its slot of the team. The object of member 0
/// also has the data that all members share.
struct MemberCalls {
  MemberCalls* next;
  const abi::SyncSlot* slot;  ///< null: its PE has ended
  void* fiber;                ///< makes the accesses of the calls
  std::uint64_t number;       ///< number of the last call
  // The members below are shared.
  std::uint64_t latest;   ///< the last number that a member has entered
  std::uint64_t results;  ///< orders the results of a call before the stores of the next call
  /// A thread that returns from a call acquires the accesses of all members until they entered it.
  std::uint64_t entered[kCallTags];
};

/// Memory that a call uses, of this member and of others.
struct CallMemory {
  const char* read;
  std::size_t read_bytes;  ///< bytes read at this member
  char* written;           ///< written by this member, at the members from `first` on
  std::size_t written_bytes;
  int first;
  char* result;
  std::size_t result_bytes;  ///< bytes of this member that all write
};
/// Returns the memory of a call. Where all members could store to the same bytes, these are divided
/// between them, since otherwise their stores would race. The division depends on `turn`, which is
/// the same on all members.
inline CallMemory memory_of(const Collective& c, std::uint64_t turn) {
  const auto me = static_cast<std::size_t>(c.team->my_pe);
  const auto members = static_cast<std::size_t>(c.team->n_pes);
  const std::size_t n = c.bytes, all = n * members;
  CallMemory m{c.source, n, c.dest, n, 0, c.dest, n};
  const auto share_out = [&](std::size_t share) {
    const std::size_t begin = n * share / members;
    m.written += begin;
    m.written_bytes = n * (share + 1) / members - begin;
    // No member stores to the source of a member that has not entered.
    if (m.read < m.result + n && m.result < m.read + m.read_bytes) m.written_bytes = 0;
  };
  switch (c.kind) {
    case CallKind::kAlltoall:
    case CallKind::kFcollect:
      m.written += me * n;
      m.result_bytes = all;
      if (c.kind == CallKind::kFcollect) break;
      m.read -= me * n;
      m.read_bytes = all;
      if (m.read == m.result) m.written_bytes = 0;
      break;
    case CallKind::kCollect:  // `dest` is the part of this member, which does not know the others
      m.result_bytes = 0;
      break;
    case CallKind::kBroadcast:
      if (c.root != c.team->my_pe) m.read_bytes = m.written_bytes = 0;
      break;
    case CallKind::kInscan:
    case CallKind::kExscan:
      m.first = c.team->my_pe;
      share_out(me);
      break;
    case CallKind::kReducescatter:
      m.read -= me * n;
      m.read_bytes = all;
      share_out((me + turn) % members);
      break;
    default:
      share_out((me + turn) % members);
  }
  return m;
}

/// Checks collectives. The caller holds the checker's lock.
class CollectiveChecker {
 public:
  void enter(const Collective& call, void** frame) {
    MemberCalls& mine = calls_of(call, call.team->my_pe);
    MemberCalls& shared = calls_of(call, 0);
    mine.number = mine.slot->epoch + mine.slot->packets;
    // The numbers of a new team start again.
    if (shared.latest < mine.number || shared.latest > mine.number + kCallTags)
      shared.latest = mine.number;
    if (!mine.fiber && n_fibers_ == kMostCallFibers) return;  // it is not checked
    if (!mine.fiber) {
      ++n_fibers_;
      char name[64];
      (void)tsan::name_of("collective", *call.state, name);
      mine.fiber = __tsan_create_fiber(0);
      __tsan_set_fiber_name(mine.fiber, name);
    }
    void* frames[tsan::kFrames];
    const int n_frames = tsan::callers(frame, frames);
    // The turn is random: if it alternated, the check would miss programs that wait in every other
    // call.
    const CallMemory memory = memory_of(call, tsan::mixed(mine.number) % kCallTags);
    if (memory.read_bytes == 0 && memory.written_bytes == 0) return;
    void* const here = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(mine.fiber, 0);
    for (int i = n_frames; i-- > 0;) __tsan_func_entry(frames[i]);
    __tsan_acquire(&shared.results);
    if (memory.read_bytes != 0) tsan::note_reading(memory.read, memory.read_bytes);
    for (int i = memory.first; i < call.team->n_pes && memory.written_bytes != 0; ++i) {
      char* const to =
          device::peer_address(*call.state, memory.written, device::team_pe(*call.team, i));
      if (to != memory.read) __tsan_write_range(to, memory.written_bytes);
    }
    __tsan_release(&shared.entered[mine.number % kCallTags]);
    for (int i = 0; i < n_frames; ++i) __tsan_func_exit();
    __tsan_switch_to_fiber(here, tsan::kNoSync);
  }

  void leave(const Collective& call) {
    const MemberCalls& mine = calls_of(call, call.team->my_pe);
    MemberCalls& shared = calls_of(call, 0);
    __tsan_acquire(&shared.entered[mine.number % kCallTags]);
    // The result is stored here. Another member may already store the result of the next call.
    const CallMemory memory = memory_of(call, 0);
    if (shared.latest != mine.number || memory.result_bytes == 0) return;
    __tsan_write_range(memory.result, memory.result_bytes);
    __tsan_release(&shared.results);
  }

  /// The PE ends.
  void finish(const abi::DeviceState& state) {
    for (MemberCalls* calls = calls_; calls; calls = calls->next) {
      const auto* const slot = reinterpret_cast<const char*>(calls->slot);
      if (slot < state.heap || slot >= state.heap + state.stride) continue;
      if (calls->fiber) {
        __tsan_destroy_fiber(calls->fiber);
        --n_fibers_;
      }
      MemberCalls* const next = calls->next;
      *calls = {};
      calls->next = next;
    }
  }

 private:
  MemberCalls& calls_of(const Collective& call, int member) {
    const abi::SyncSlot* const slot = device::peer_address(
        *call.state, call.state->team_slots + device::team_index(call.team->handle),
        device::team_pe(*call.team, member));
    MemberCalls* unused = nullptr;
    for (MemberCalls* calls = calls_; calls; calls = calls->next) {
      if (calls->slot == slot) return *calls;
      if (!calls->slot) unused = calls;
    }
    if (!unused) {
      unused = static_cast<MemberCalls*>(std::calloc(1, sizeof(MemberCalls)));
      unused->next = calls_;
      calls_ = unused;
    }
    unused->slot = slot;
    return *unused;
  }

  MemberCalls* calls_ = nullptr;
  unsigned n_fibers_ = 0;
};

}  // namespace gshmem

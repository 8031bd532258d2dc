// Barrier over all PEs: every PE tells every other one the number of the barrier it has entered,
// one lane per peer. It waits until all others have entered it too (OpenSHMEM 1.5, section 9.9).
// One way over the wire whatever the number of PEs; every flag has one writer. (One arrival counter
// per PE, with remote adds, took 2.3 us where these flags take 1.8: 4 H200s, block.)
//
// Ordering: one system fence before the flags makes them a release of everything the group has
// done. So sync and barrier cost the same where all PEs are mapped; one acquire follows the polls.
// PEs that are not mapped get their flag as a small put.
#pragma once

#include "coop.h"
#include "order.h"
#include "wait.h"

namespace gshmem::device {

/// Tells PE `pe`, which is not mapped, what the others read from their flags: the barrier that this
/// one has entered. The flag and its value are made here, so that only the number of the PE takes
/// registers of the caller.
GSHMEM_OUTLINE void tell_by_network(const State& state, int pe) {
  abi::SyncArea* sync = reinterpret_cast<abi::SyncArea*>(state.heap);
  const std::uint32_t epoch = static_cast<std::uint32_t>(load_relaxed(&sync->epoch)) + 1;
  PostingOf<OneEntry> posting;
  post_by(posting, state, nic::queue_index(state, pe, nic::Rail::kFirst));
  begin_wait(posting, "sync");
  posting.entries = inline_entry(nic::heap_offset(state, &sync->arrived[epoch % 2][state.my_pe]),
                                 {{epoch, 0, 0}}, sizeof(epoch));
  post_by_steps<Sharing::kWarp>(posting);
  post_report(posting);
}

/// A PE that is stopped must not tell that it has entered: its puts may be missing.
GSHMEM_OUTLINE bool may_meet(const State& state) {
  if (load_acquire(&state.control->stop) == 0) return true;
  stop_here(state);
  return false;
}

/// Stores to this PE's memory, and to memory of mapped PEs, of the calling group before the sync
/// are visible to every PE after it. Threads: one group per PE at a time.
template <class Coop>
GSHMEM_FN void sync_all(Coop coop, const State& state, const char* call) {
  abi::SyncArea* sync = reinterpret_cast<abi::SyncArea*>(state.heap);
  const int rank = coop.thread_rank(), width = coop.size();
  std::uint64_t epoch = 0;
  bool arrived = true;
  coop.sync();
  if (rank < state.n_pes) {                  // only those who have a peer to tell
    epoch = load_relaxed(&sync->epoch) + 1;  // comes while the fence waits
    fence_release_system();
    if (state.nic.queues) {
      arrived = may_meet(state);
      GSHMEM_NO_UNROLL
      for (int pe = rank; arrived && pe < state.n_pes; pe += width) {
        if (!is_mapped(state, pe)) tell_by_network(state, pe);
      }
      epoch = load_relaxed(&sync->epoch) + 1;  // again, so that no register holds it over the calls
    }
    const std::uint32_t told = static_cast<std::uint32_t>(epoch);
    std::uint32_t* flags = sync->arrived[told % 2];
    GSHMEM_NO_UNROLL
    for (int pe = rank; arrived && pe < state.n_pes; pe += width) {
      if (pe != state.my_pe && is_mapped(state, pe)) {
        store_flag(peer_address(state, flags + state.my_pe, pe), told);
      }
    }
    GSHMEM_NO_UNROLL
    for (int pe = rank; arrived && pe < state.n_pes; pe += width) {
      if (pe == state.my_pe) continue;
      arrived = spin_until(
          state, call, [&] { return static_cast<std::int32_t>(load_poll(flags + pe) - told) >= 0; },
          pe);
    }
    fence_acquire_system();
  }
  coop.sync();
  // Everyone has read the old value. A wait that had to end leaves it: the PE is stopped anyway.
  if (arrived && rank == 0) store_relaxed(&sync->epoch, epoch);
  coop.sync();  // a thread that is let go may let in another group, which reads the new value
}

/// quiet, then sync; for mapped PEs the fence of sync_all is the quiet.
template <class Coop>
GSHMEM_FN void barrier_all(Coop coop, const State& state, const char* call) {
  if (state.nic.queues) {
    coop.sync();
    nic::quiet(coop, state, call);
  }
  sync_all(coop, state, call);
}

}  // namespace gshmem::device

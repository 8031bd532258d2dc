// Barrier over all PEs: every PE tells every other one the number of the barrier it has entered,
// one lane per peer, and waits until all others have entered it too (OpenSHMEM 1.5, section 9.9).
// One way over the wire whatever the number of PEs; every flag has one writer. (One arrival counter
// per PE, with remote adds, took 2.3 us where these flags take 1.8: 4 H200s, block.)
//
// Ordering: one system fence before the flags makes them a release of everything the group has
// done, so sync and barrier cost the same on this path; the acquire is in the poll.
#pragma once

#include "coop.h"
#include "order.h"
#include "wait.h"

namespace gshmem::device {

/// Stores to this PE's memory, and on this path also all remote updates, of the calling group
/// before the sync are visible to every PE after it. Threads: one group per PE at a time.
template <class Coop>
GSHMEM_FN void sync_all(Coop coop, const State& state, const char* call) {
  abi::SyncArea* sync = reinterpret_cast<abi::SyncArea*>(state.heap);
  const int rank = coop.thread_rank(), width = coop.size();
  std::uint64_t epoch = 0;
  bool arrived = true;
  coop.sync();
  if (rank < state.n_pes) {  // only those who have a peer to tell
    epoch = load_relaxed(&sync->epoch) + 1;
    fence_system();
    std::uint64_t* flag = &peer_address(state, sync, rank)->arrived[state.my_pe];
    const std::int64_t step = state.stride * width;
    GSHMEM_NO_UNROLL
    for (int pe = rank; pe < state.n_pes; pe += width, flag = byte_offset(flag, step)) {
      if (pe != state.my_pe) store_flag(flag, epoch);
    }
    GSHMEM_NO_UNROLL
    for (int pe = rank; arrived && pe < state.n_pes; pe += width) {
      if (pe == state.my_pe) continue;
      arrived = spin_until(state, call, [&] { return load_acquire(&sync->arrived[pe]) >= epoch; });
    }
  }
  coop.sync();
  // Everyone has read the old value. A wait that had to end leaves it: the PE is stopped anyway.
  if (arrived && rank == 0) store_relaxed(&sync->epoch, epoch);
}

/// quiet, then sync; on this path the fence of sync_all is the quiet.
template <class Coop>
GSHMEM_FN void barrier_all(Coop coop, const State& state, const char* call) {
  sync_all(coop, state, call);
}

}  // namespace gshmem::device

// Barrier over all PEs: every PE adds one to the arrival counter of every other one, one lane per
// peer, and waits until its own counter says that all others have come (OpenSHMEM 1.5,
// section 9.9). One way over the wire whatever the number of PEs, and one word to poll.
//
// Ordering. The adds follow a system fence, which makes them a release of everything the group has
// done; each one reads the one before it, so the acquire of the last value observes all of them
// (PTX ISA, observation order; C++ release sequences). Counters only grow: a PE that runs ahead
// into the next barrier may be counted in place of one whose add is still under way, but it has
// seen that PE arrive, and passes on what that one released. Sync and barrier cost the same on this
// path.
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
  const int rank = coop.thread_rank();
  coop.sync();
  const std::uint64_t epoch = rank == 0 ? load_relaxed(&sync->epoch) + 1 : 0;
  if (rank < state.n_pes) fence_system();  // only those who add
  for (int pe = rank; pe < state.n_pes; pe += coop.size()) {
    if (pe != state.my_pe) atomic_add(&peer_address(state, sync, pe)->arrivals, std::uint64_t{1});
  }
  if (rank == 0) {
    const std::uint64_t all = epoch * static_cast<std::uint64_t>(state.n_pes - 1);
    // A wait that had to end leaves the epoch where it was: the PE is stopped anyway.
    if (spin_until(state, call, [&] { return load_acquire(&sync->arrivals) >= all; })) {
      store_relaxed(&sync->epoch, epoch);
    }
  }
  coop.sync();
}

/// quiet, then sync; on this path the fence of sync_all is the quiet.
template <class Coop>
GSHMEM_FN void barrier_all(Coop coop, const State& state, const char* call) {
  sync_all(coop, state, call);
}

}  // namespace gshmem::device

// Barrier over all PEs: every PE tells every other one the number of the barrier it has reached,
// one lane per peer, and waits until all have reached it (OpenSHMEM 1.5, section 9.9). One round
// trip on the wire whatever the number of PEs; no PE's flag is written by two PEs.
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
  coop.sync();
  const std::uint64_t epoch = load_relaxed(&sync->epoch) + 1;
  if (coop.thread_rank() < state.n_pes) fence_system();  // only those who store flags
  bool arrived = true;
  for (int pe = coop.thread_rank(); pe < state.n_pes; pe += coop.size()) {
    store_flag(&peer_address(state, sync, pe)->arrived[state.my_pe], epoch);
  }
  for (int pe = coop.thread_rank(); arrived && pe < state.n_pes; pe += coop.size()) {
    arrived = spin_until(state, call, [&] { return load_acquire(&sync->arrived[pe]) >= epoch; });
  }
  coop.sync();
  // Next read: by a thread of this group behind the sync above of the next call, or by another
  // kernel. A wait that had to end leaves the epoch where it was: the PE is stopped anyway.
  if (arrived && coop.thread_rank() == 0) store_relaxed(&sync->epoch, epoch);
}

/// quiet, then sync; on this path the fence of sync_all is the quiet.
template <class Coop>
GSHMEM_FN void barrier_all(Coop coop, const State& state, const char* call) {
  sync_all(coop, state, call);
}

}  // namespace gshmem::device

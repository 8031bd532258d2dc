// Ordering (OpenSHMEM 1.5, section 9.11) over both paths.
#pragma once

#include "../core/coop.h"
#include "../core/machine.h"
#include "../network/network_path.h"

namespace gshmem::device {

/// Puts, AMOs and signals of this thread (group) before the fence arrive at each PE before those
/// after it. A system fence orders stores to all PEs, which is more than asked; nothing cheaper
/// does it. On the network neither the reliable connection (which orders no two writes in memory
/// before their completion) nor several queues to a PE give that order, so fence waits as quiet
/// does.
template <class Coop>
GSHMEM_FN void fence(Coop coop, const State& state) {
  const bool by_network = state.nic.queues != nullptr;  // known before the fence ends
  coop.sync();
  fence_release_system();
  if (by_network) nic::quiet(coop, state, "fence");
  coop.sync();
}
/// Everything this thread (group) has issued is complete at its target. A mapped store is complete
/// when the fence after it has returned; what went by the network, when its queue says so. A queue
/// says so when a NIC of the target has the data: before all that arrives there later, but maybe
/// after loads of a third PE that maps the target's memory (flush_rails does more, for several
/// NICs).
template <class Coop>
GSHMEM_FN void quiet(Coop coop, const State& state) {
  const bool by_network = state.nic.queues != nullptr;
  coop.sync();
  fence_complete_system();
  if (by_network) nic::quiet(coop, state, "quiet");
  coop.sync();
}

/// The sources of the puts that this thread (group) has issued may change. Stores to mapped PEs
/// have read theirs; a queue says no less than that the target has the data.
template <class Coop>
GSHMEM_FN void flush(Coop coop, const State& state) {
  coop.sync();
  if (state.nic.queues) nic::quiet(coop, state, "flush");
  coop.sync();
}

/// As quiet; GSHMEMX_SUCCESS when everything is complete, else the code of this PE's first fault:
/// the same for the whole group. A PE that is stopped for whatever reason gets its fault, because
/// calls before this one may have had to leave out what they should have posted.
template <class Coop>
GSHMEM_FN int quiet_status(Coop coop, const State& state, const char* call) {
  coop.sync();
  fence_complete_system();
  bool good = true;
  if (state.nic.queues) good = nic::quiet_noted(coop, state, call);
  if (load_acquire(&state.control->stop) != 0) good = false;
  return coop.any(!good) ? fault_code(state) : GSHMEMX_SUCCESS;
}

}  // namespace gshmem::device

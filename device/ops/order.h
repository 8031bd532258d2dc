// Ordering (OpenSHMEM 1.5, section 9.11) for both paths.
#pragma once

#include "../core/coop.h"
#include "../core/machine.h"
#include "../network/network_path.h"

namespace gshmem::device {

/// Orders puts, AMOs and signals of this thread (group): those before the fence arrive at each PE
/// before those after it. A system fence orders stores to all PEs, which is more than required, but
/// nothing cheaper suffices. On the network, fence waits as quiet does. A reliable connection does
/// not order two writes in memory before their completion, and several queues to a PE give no
/// order.
template <class Coop>
GSHMEM_FN void fence(Coop coop, const State& state) {
  const bool by_network = state.nic.queues != nullptr;  // loaded before the fence ends
  coop.sync();
  if (by_network) {
    nic::quiet<nic::Stores::kOrdered>(coop, state, "fence");
  } else {
    fence_release_system();
  }
  coop.sync();
}
/// Completes everything that this thread (group) has issued. A mapped store is complete when the
/// fence after it has returned; a network operation when its queue reports it. A queue reports
/// completion when a NIC of the target has the data. The data is visible before everything that
/// arrives there later, but perhaps not to earlier loads of a third PE that maps the target's
/// memory (flush_rails does more, for several NICs).
template <class Coop>
GSHMEM_FN void quiet(Coop coop, const State& state) {
  const bool by_network = state.nic.queues != nullptr;
  coop.sync();
  if (by_network) {
    nic::quiet<nic::Stores::kComplete>(coop, state, "quiet");
  } else {
    fence_complete_system();
  }
  coop.sync();
}

/// After this the sources of the puts that this thread (group) has issued may be changed. Stores to
/// mapped PEs have read their sources; a completion of a queue means that the target has the data.
template <class Coop>
GSHMEM_FN void flush(Coop coop, const State& state) {
  coop.sync();
  if (state.nic.queues) nic::quiet(coop, state, "flush");
  coop.sync();
}

/// Does what quiet does. Returns GSHMEMX_SUCCESS when everything is complete, otherwise the code of
/// this PE's first fault; the result is the same for the whole group. A PE that was stopped for any
/// reason gets its fault, because earlier calls may not have posted their operations.
template <class Coop>
GSHMEM_FN int quiet_status(Coop coop, const State& state, const char* call) {
  coop.sync();
  bool good = true;
  if (state.nic.queues) {
    good = nic::quiet<nic::Stores::kComplete>(coop, state, call, nic::QuietEnd::kNote);
  } else {
    fence_complete_system();
  }
  if (load_acquire(&state.control->stop) != 0) good = false;
  return coop.any(!good) ? fault_code(state) : GSHMEMX_SUCCESS;
}

}  // namespace gshmem::device

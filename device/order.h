// Ordering on the load/store path (OpenSHMEM 1.5, section 9.11).
#pragma once

#include "coop.h"
#include "machine.h"
#include "p2p.h"

namespace gshmem::device {

/// Puts, AMOs and signals of this thread (group) before the fence arrive at each PE before those
/// after it. A system fence orders stores to all PEs, which is more than asked; nothing cheaper
/// does it.
template <class Coop>
GSHMEM_FN void fence(Coop coop, const State&) {
  coop.sync();
  fence_system();
  coop.sync();
}

/// Everything this thread (group) has issued is complete at its target. A mapped store is complete
/// when a system fence behind it has returned, so quiet is a fence here.
template <class Coop>
GSHMEM_FN void quiet(Coop coop, const State& state) {
  fence(coop, state);
}

}  // namespace gshmem::device

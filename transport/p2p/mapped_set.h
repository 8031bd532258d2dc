// Which heaps a PE reaches by load and store, in the form that DeviceState has. Pure; included by
// the windows and by the runtime.
#pragma once

#include "transport/p2p/host_group.h"

#include <cstdint>
#include <vector>

namespace gshmem::p2p {

/// `slots` is empty where the mapped PEs' numbers are consecutive.
struct MappedSet {
  int first = 0, count = 0, my_slot = 0;
  std::vector<std::int32_t> slots;  ///< by PE, -1 = not mapped
};

/// `mapped[i]`: the heap of PE group.pes[i] lies at slot i. None at all is a set too: then not even
/// the PE's own heap is reached this way.
[[nodiscard]] MappedSet mapped_set(const HostGroup& group, const std::vector<bool>& mapped);

/// Sets of PEs that reach each other: `reach[i][j]` != 0 says that i can map j. Element i of the
/// result is the number of i's set. Both directions count, and a set is complete, so that all its
/// members agree on who shares memory; a topology that is not like that loses paths here.
[[nodiscard]] std::vector<int> sets_that_reach_each_other(
    const std::vector<std::vector<char>>& reach);

}  // namespace gshmem::p2p

// The heaps that a PE accesses by load and store, in the form that DeviceState has. Pure; included
// by the windows and by the runtime.
#pragma once

#include <cstdint>
#include <vector>

namespace gshmem::p2p {

/// `slots` is empty if the numbers of the mapped PEs are consecutive.
struct MappedSet {
  int first = 0, count = 0, my_slot = 0;
  std::vector<std::int32_t> slots;  ///< by PE, -1 = not mapped
};

/// `mapped[i]` tells whether the heap of PE pes[i] is mapped at slot i; `pes` is ascending. The set
/// may be empty: then even the PE's own heap is not accessed in this way.
[[nodiscard]] MappedSet mapped_set(const std::vector<int>& pes, const std::vector<bool>& mapped,
                                   int me, int n_pes);

/// `reach[i][j]` != 0 means that i can map j.
using Reach = std::vector<std::vector<char>>;

/// Returns the number of each PE's set. The PEs of a set can all map each other. Both directions
/// are required, and a set is complete, so that all its members agree on who shares memory. A
/// topology with other connections loses paths here.
[[nodiscard]] std::vector<int> sets_that_reach_each_other(const Reach& reach);

/// Returns such sets where i belongs to group[i]. First the sets inside each group are formed. Then
/// sets whose members can all map each other are joined. So a failure between groups removes no
/// path inside of one.
[[nodiscard]] std::vector<int> sets_of_groups(const Reach& reach, const std::vector<int>& group);

}  // namespace gshmem::p2p

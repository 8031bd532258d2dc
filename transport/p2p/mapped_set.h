// Which heaps a PE reaches by load and store, in the form that DeviceState has. Pure; included by
// the windows and by the runtime.
#pragma once

#include <cstdint>
#include <vector>

namespace gshmem::p2p {

/// `slots` is empty where the mapped PEs' numbers are consecutive.
struct MappedSet {
  int first = 0, count = 0, my_slot = 0;
  std::vector<std::int32_t> slots;  ///< by PE, -1 = not mapped
};

/// `mapped[i]`: the heap of PE pes[i] is at slot i; `pes` ascend. None at all is a set too: then
/// not even the PE's own heap is reached this way.
[[nodiscard]] MappedSet mapped_set(const std::vector<int>& pes, const std::vector<bool>& mapped,
                                   int me, int n_pes);

/// `reach[i][j]` != 0 says that i can map j.
using Reach = std::vector<std::vector<char>>;

/// Sets of PEs that reach each other. Element i of the result is the number of i's set. Both
/// directions count, and a set is complete, so that all its members agree on who shares memory; a
/// topology that is not like that loses paths here.
[[nodiscard]] std::vector<int> sets_that_reach_each_other(const Reach& reach);

/// Sets that reach each other where i belongs to group[i]: first those inside each group, then
/// those of them that reach each other as wholes are one. What fails between groups takes no path
/// away inside of one.
[[nodiscard]] std::vector<int> sets_of_groups(const Reach& reach, const std::vector<int>& group);

}  // namespace gshmem::p2p

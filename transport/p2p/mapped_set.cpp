#include "transport/p2p/mapped_set.h"

#include <algorithm>

namespace gshmem::p2p {

MappedSet mapped_set(const HostGroup& group, const std::vector<bool>& mapped) {
  MappedSet set;
  int last = -1;
  for (int i = 0; i < group.size(); ++i) {
    if (!mapped[static_cast<std::size_t>(i)]) continue;
    if (set.count++ == 0) set.first = group.pe(i);
    last = group.pe(i);
  }
  if (set.count == 0 || last - set.first + 1 == set.count) return set;
  set.my_slot = group.index;
  set.slots.assign(group.node_of.size(), -1);
  for (int i = 0; i < group.size(); ++i) {
    if (mapped[static_cast<std::size_t>(i)]) set.slots[static_cast<std::size_t>(group.pe(i))] = i;
  }
  return set;
}

std::vector<int> sets_that_reach_each_other(const std::vector<std::vector<char>>& reach) {
  std::vector<std::vector<std::size_t>> sets;
  std::vector<int> number;
  for (std::size_t i = 0; i < reach.size(); ++i) {
    const auto fits = [&](const std::vector<std::size_t>& set) {
      return std::all_of(set.begin(), set.end(),
                         [&](std::size_t j) { return reach[i][j] != 0 && reach[j][i] != 0; });
    };
    const auto found = std::find_if(sets.begin(), sets.end(), fits);
    number.push_back(static_cast<int>(found - sets.begin()));
    if (found == sets.end()) {
      sets.push_back({i});
    } else {
      found->push_back(i);
    }
  }
  return number;
}

}  // namespace gshmem::p2p

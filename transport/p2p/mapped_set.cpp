#include "transport/p2p/mapped_set.h"

#include <algorithm>

namespace gshmem::p2p {

MappedSet mapped_set(const std::vector<int>& pes, const std::vector<bool>& mapped, int me,
                     int n_pes) {
  MappedSet set;
  int last = -1;
  for (std::size_t i = 0; i < pes.size(); ++i) {
    if (!mapped[i]) continue;
    if (set.count++ == 0) set.first = pes[i];
    last = pes[i];
  }
  if (last - set.first + 1 == set.count) return set;
  set.slots.assign(static_cast<std::size_t>(n_pes), -1);
  for (std::size_t i = 0; i < pes.size(); ++i) {
    if (mapped[i]) set.slots[static_cast<std::size_t>(pes[i])] = static_cast<std::int32_t>(i);
    if (pes[i] == me) set.my_slot = static_cast<int>(i);
  }
  return set;
}

std::vector<int> sets_that_reach_each_other(const Reach& reach) {
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

std::vector<int> sets_of_groups(const Reach& reach, const std::vector<int>& group) {
  Reach inside = reach;
  for (std::size_t i = 0; i < reach.size(); ++i) {
    for (std::size_t j = 0; j < reach.size(); ++j) {
      if (group[i] != group[j]) inside[i][j] = 0;
    }
  }
  std::vector<int> sets = sets_that_reach_each_other(inside);
  const auto n_sets = static_cast<std::size_t>(1 + *std::max_element(sets.begin(), sets.end()));
  Reach between(n_sets, std::vector<char>(n_sets, 1));
  for (std::size_t i = 0; i < reach.size(); ++i) {
    for (std::size_t j = 0; j < reach.size(); ++j) {
      const auto from = static_cast<std::size_t>(sets[i]), to = static_cast<std::size_t>(sets[j]);
      if (from != to && reach[i][j] == 0) between[from][to] = 0;
    }
  }
  const std::vector<int> merged = sets_that_reach_each_other(between);
  for (int& set : sets) set = merged[static_cast<std::size_t>(set)];
  return sets;
}

}  // namespace gshmem::p2p

// Places that all peers share, of which some may never come back: a peer that does not answer keeps
// what it has. Half of the places is set aside, the same number for each peer; of the rest a peer
// takes no more than it leaves. So each gets something, whatever the others do, as long as there
// are two places for each peer. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gshmem::ofi {

class Shares {
 public:
  Shares(std::size_t places, std::size_t peers)
      : each_(places / (2 * peers)), rest_(places - each_ * peers), has_(peers) {}

  [[nodiscard]] bool may_take(int pe) const {
    const std::size_t has = has_[static_cast<std::size_t>(pe)];
    return has < each_ || has - each_ < rest_;
  }
  void take(int pe) {
    if (has_[static_cast<std::size_t>(pe)]++ >= each_) --rest_;
  }
  void give_back(int pe) {
    if (--has_[static_cast<std::size_t>(pe)] >= each_) ++rest_;
  }

 private:
  std::size_t each_;
  std::size_t rest_;                ///< that nobody has, of those that are not set aside
  std::vector<std::uint32_t> has_;  ///< by PE
};

}  // namespace gshmem::ofi

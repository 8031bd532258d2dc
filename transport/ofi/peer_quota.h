// Divides slots between peers. A peer that does not answer may never return its slots. Half of the
// slots are reserved, the same number for each peer. Of the other slots, a peer may not take more
// than remain after it. So each peer gets some slots, whatever the others do, if there are at least
// two slots per peer. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gshmem::ofi {

class PeerQuota {
 public:
  PeerQuota(std::size_t slots, std::size_t peers)
      : each_(slots / (2 * peers)), rest_(slots - each_ * peers), has_(peers) {}

  [[nodiscard]] bool may_take(int pe) const {
    const std::size_t has = has_[static_cast<std::size_t>(pe)];
    return has < each_ || has - each_ < rest_;
  }
  void take(int pe) {
    if (has_[static_cast<std::size_t>(pe)]++ >= each_) --rest_;
  }
  void release(int pe) {
    if (--has_[static_cast<std::size_t>(pe)] >= each_) ++rest_;
  }

 private:
  std::size_t each_;
  std::size_t rest_;                ///< free slots that are not reserved
  std::vector<std::uint32_t> has_;  ///< slots in use, by PE
};

}  // namespace gshmem::ofi

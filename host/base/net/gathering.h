// What the middle of a star and every node of a tree do with contributions to collectives: one
// collective after the other, a contribution of each member, who is missing. Included by the root
// service of a unique id and by the tree of hosts. Pure. Invariant: members are at most one
// collective ahead of the one under way, and what is out of turn is not taken.
#pragma once

#include "host/base/net/frame.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gshmem::net {

class Gathering {
 public:
  explicit Gathering(std::size_t members) : contributions_(members) {}

  /// Of the collective under way; the first is 1.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// False: it is of another collective, or the second one of this member.
  [[nodiscard]] bool put(std::size_t member, Frame contribution) {
    if (header_of(contribution).number != number_ || contributions_[member]) return false;
    contributions_[member] = std::move(contribution);
    return true;
  }
  [[nodiscard]] bool has(std::size_t member) const { return contributions_[member] != nullptr; }
  [[nodiscard]] bool complete() const {
    return std::ranges::all_of(contributions_, [](const Frame& frame) { return frame != nullptr; });
  }
  /// By member; null where there is none yet.
  [[nodiscard]] const std::vector<Frame>& contributions() const { return contributions_; }
  /// The result is known: on to the next.
  void finish() {
    std::ranges::fill(contributions_, nullptr);
    ++number_;
  }

 private:
  std::vector<Frame> contributions_;
  std::uint64_t number_ = 1;
};

}  // namespace gshmem::net

// Collects contributions to collectives, in the center of a star and in every node of a tree: one
// collective after another, with one contribution per member. Included by the root service of a
// unique id and by the tree of hosts. Pure. Invariant: members are at most one collective ahead of
// the current one, and contributions out of order are not accepted.
#pragma once

#include "host/base/net/frame.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gshmem::net {

class Gathering {
 public:
  explicit Gathering(std::size_t members) : contributions_(members) {}

  /// Returns the number of the current collective; the first is 1.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// Stores a contribution. Returns false if it belongs to another collective, or is the second one
  /// of this member.
  [[nodiscard]] bool put(std::size_t member, Frame contribution) {
    if (header_of(contribution).number != number_ || contributions_[member]) return false;
    contributions_[member] = std::move(contribution);
    return true;
  }
  [[nodiscard]] bool has(std::size_t member) const { return contributions_[member] != nullptr; }
  [[nodiscard]] bool complete() const {
    return std::ranges::all_of(contributions_, [](const Frame& frame) { return frame != nullptr; });
  }
  /// Returns the contributions by member; null where there is none yet.
  [[nodiscard]] const std::vector<Frame>& contributions() const { return contributions_; }
  /// Moves on to the next collective; the result of this one is known.
  void finish() {
    std::ranges::fill(contributions_, nullptr);
    ++number_;
  }

 private:
  std::vector<Frame> contributions_;
  std::uint64_t number_ = 1;
};

}  // namespace gshmem::net

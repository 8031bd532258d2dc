// All rings of a PE, and whose turn it is: engines have fewer places than rings have operations,
// and what becomes free shall go round. Used by the executor's thread.
#pragma once

#include "transport/ofi/ring.h"

#include <deque>

namespace gshmem::ofi {

class Rings {
 public:
  void add(Ring ring) { rings_.push_back(std::move(ring)); }
  [[nodiscard]] const std::deque<Ring>& all() const { return rings_; }

  /// Does what all rings can do now, beginning behind the first one that an engine took something
  /// of in the last pass: who has got nothing comes nearer to the front with each that has. True
  /// when there was something to do.
  bool step(RingServices& services, Clock::time_point now);

 private:
  std::deque<Ring> rings_;
  std::size_t first_ = 0;
};

}  // namespace gshmem::ofi

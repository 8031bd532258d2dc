#include "transport/ofi/rings.h"

namespace gshmem::ofi {

bool Rings::step(RingServices& services, Clock::time_point now) {
  bool busy = false;
  const std::size_t count = rings_.size(), none = count, begin = first_;
  std::size_t served = none;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = (begin + i) % count;
    busy |= rings_[index].step(services, now);
    if (served == none && rings_[index].served()) served = index;
  }
  if (served != none) first_ = (served + 1) % count;
  return busy;
}

}  // namespace gshmem::ofi

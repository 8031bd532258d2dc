#include "transport/ofi/work_queues.h"

namespace gshmem::ofi {

bool WorkQueues::step(QueueServices& services, Clock::time_point now) {
  bool busy = false;
  const std::size_t count = queues_.size(), none = count, begin = first_;
  std::size_t served = none;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t index = (begin + i) % count;
    busy |= queues_[index].step(services, now);
    if (served == none && queues_[index].served()) served = index;
  }
  if (served != none) first_ = (served + 1) % count;
  return busy;
}

}  // namespace gshmem::ofi

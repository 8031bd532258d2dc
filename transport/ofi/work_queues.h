// All queues of a PE, and whose turn it is: engines have fewer places than queues have operations,
// and what becomes free shall go round. Used by the executor's thread.
#pragma once

#include "transport/ofi/work_queue.h"

#include <deque>

namespace gshmem::ofi {

class WorkQueues {
 public:
  void add(WorkQueue queue) { queues_.push_back(std::move(queue)); }
  [[nodiscard]] const std::deque<WorkQueue>& all() const { return queues_; }

  /// Does what all queues can do now, beginning after the first one that an engine took something
  /// of in the last pass: a queue that got nothing comes nearer to the front with each that has.
  /// True when there was something to do.
  bool step(QueueServices& services, Clock::time_point now);

 private:
  std::deque<WorkQueue> queues_;
  std::size_t first_ = 0;
};

}  // namespace gshmem::ofi

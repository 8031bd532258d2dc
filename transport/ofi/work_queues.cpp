#include "transport/ofi/work_queues.h"

#include "transport/ofi/doorbells.h"

#include <algorithm>
#include <atomic>

namespace gshmem::ofi {

void WorkQueues::read_doorbells() {
  const std::size_t count = queues_.size();
  for (std::size_t at = first_rung(doorbells_, 0, count); at < count;
       at = first_rung(doorbells_, at + 1, count)) {
    // Pairs with the release of the thread that rings (device/queue.h): the entries are written.
    const std::uint64_t value =
        std::atomic_ref(doorbells_[at]).exchange(kNotRung, std::memory_order_acquire);
    if (value != kNotRung) queues_[at].rung(value);
  }
}

bool WorkQueues::step(QueueServices& services, Clock::time_point now) {
  read_doorbells();
  if (ready_.empty() && hungry_.empty()) return false;
  turn_.swap(hungry_);
  turn_.insert(turn_.end(), ready_.begin(), ready_.end());
  bool busy = !ready_.empty();  // a queue is listed when there is something for it to do
  ready_.clear();
  // The order of those that got nothing stays.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < turn_.size(); ++i) {
    WorkQueue* const queue = turn_[i];
    queue->step(services, now);
    busy |= queue->served();
    if (!queue->hungry() || queue->listed()) continue;
    queue->stays_listed();
    if (queue->served())
      hungry_.push_back(queue);
    else
      turn_[kept++] = queue;
  }
  turn_.resize(kept);
  turn_.insert(turn_.end(), hungry_.begin(), hungry_.end());
  hungry_.swap(turn_);
  turn_.clear();
  return busy;
}

void WorkQueues::find_overdue(const QueueServices& services, Clock::time_point now) {
  for (WorkQueue& queue : queues_) queue.find_overdue(services, now);
}

}  // namespace gshmem::ofi

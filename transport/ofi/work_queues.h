// All queues of a PE. The class finds the queues whose doorbell was rung and those that have work,
// and shares the engines between them. Engines have fewer slots than queues have operations, and
// free slots go to the queues in turn. Used by the executor's thread. Invariant: a queue that is in
// no list waits for its doorbell or for its pending operations, both of which add it to a list. So
// a round without work costs no more than polling the doorbells.
#pragma once

#include "transport/ofi/work_queue.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace gshmem::ofi {

/// Can this processor load four words at once?
[[nodiscard]] bool has_wide_loads();
/// Returns the index of the first word from `begin` on that is not all ones, which means that it
/// was rung; `end` when there is none. An executor without work does this all the time, for all its
/// queues. `wide` selects the loads for which has_wide_loads() checks.
[[nodiscard]] std::size_t first_rung(const std::uint64_t* words, std::size_t begin, std::size_t end,
                                     bool wide = has_wide_loads());

class WorkQueues {
 public:
  /// `doorbells` has one word per queue, in the order in which the queues are added; all are
  /// kNotRung.
  explicit WorkQueues(std::uint64_t* doorbells) : doorbells_(doorbells) {}
  void add(WorkQueue queue) {
    queues_.push_back(std::move(queue));
    queues_.back().list_in(ready_);
  }
  [[nodiscard]] const std::deque<WorkQueue>& all() const { return queues_; }
  [[nodiscard]] WorkQueue& operator[](std::size_t index) { return queues_[index]; }

  /// Does what is possible now for all queues. Queues from which an engine accepted nothing,
  /// because it had no space, come first the next time. Returns true when there was work.
  bool step(QueueServices& services, Clock::time_point now);
  /// Called once in a while: fails operations that take too long.
  void find_overdue(const QueueServices& services, Clock::time_point now);

 private:
  void read_doorbells();

  std::uint64_t* doorbells_;
  std::deque<WorkQueue> queues_;
  std::vector<WorkQueue*> ready_;   ///< added since the last step
  std::vector<WorkQueue*> hungry_;  ///< to be tried again, in this order
  std::vector<WorkQueue*> turn_;    ///< the queues of this step
};

}  // namespace gshmem::ofi

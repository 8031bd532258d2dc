// All queues of a PE: whose doorbell was rung, which have something to do, and whose turn it is.
// Engines have fewer places than queues have operations, and what becomes free shall go round. Used
// by the executor's thread. Invariant: a queue that is in no list waits for its doorbell or for
// what it has under way, both of which list it; so that a round without work costs no more than a
// look at the doorbells.
#pragma once

#include "transport/ofi/work_queue.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace gshmem::ofi {

/// Whether this processor looks at four words by one load.
[[nodiscard]] bool has_wide_loads();
/// The index of the first word from `begin` on that is not all ones, which was rung then; `end`
/// when there is none. An executor without work does this all the time, for all its queues.
/// `wide`: by loads that has_wide_loads() speaks of.
[[nodiscard]] std::size_t first_rung(const std::uint64_t* words, std::size_t begin, std::size_t end,
                                     bool wide = has_wide_loads());

class WorkQueues {
 public:
  /// `doorbells`: the word of each queue, in order of adding; kNotRung in all.
  explicit WorkQueues(std::uint64_t* doorbells) : doorbells_(doorbells) {}
  void add(WorkQueue queue) {
    queues_.push_back(std::move(queue));
    queues_.back().list_in(ready_);
  }
  [[nodiscard]] const std::deque<WorkQueue>& all() const { return queues_; }
  [[nodiscard]] WorkQueue& operator[](std::size_t index) { return queues_[index]; }

  /// Does what all queues can do now. Those that an engine took nothing of, for lack of places,
  /// come first the next time, before those that it took something of. True when there was
  /// something to do.
  bool step(QueueServices& services, Clock::time_point now);
  /// Once in a while: what takes too long.
  void find_overdue(const QueueServices& services, Clock::time_point now);

 private:
  void read_doorbells();

  std::uint64_t* doorbells_;
  std::deque<WorkQueue> queues_;
  std::vector<WorkQueue*> ready_;   ///< listed since the last step
  std::vector<WorkQueue*> hungry_;  ///< to be tried again, in this order
  std::vector<WorkQueue*> turn_;    ///< of this step
};

}  // namespace gshmem::ofi

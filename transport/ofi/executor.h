// The thread of a PE that executes its queues, serves the messages of others, drives the provider's
// progress and watches over peers. It never blocks: stop() is bounded by one round of its loop.
// Nothing wakes it (a GPU cannot), so that it polls: at once while there is work, then with yields,
// then with sleeps of at most 100 us.
#pragma once

#include "transport/ofi/active_messages.h"
#include "transport/ofi/liveness.h"
#include "transport/ofi/work_queues.h"

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace gshmem::ofi {

class Executor {
 public:
  struct Setup {
    Fabric& fabric;
    MemoryAccess& heap;
    ActiveMessages* messages = nullptr;  ///< null: not in use
    std::vector<Peer>& peers;
    QueueServices services;
    int pe = 0;
    std::function<void(const Error& error, int pe)> on_error;
  };
  explicit Executor(const Setup& setup);
  ~Executor() { stop(); }
  Executor(const Executor&) = delete;

  /// WorkQueues belong to the thread from the next start() on; until then they can be reached here.
  void add(WorkQueue queue);
  [[nodiscard]] WorkQueue& added(std::size_t index) { return added_.at(index - handed_over_); }
  [[nodiscard]] std::size_t count() const { return handed_over_ + added_.size(); }

  /// Starts the thread, or hands it the queues added since.
  void start();
  void stop() noexcept;

 private:
  void run() noexcept;
  void take_rings();
  bool step(Clock::time_point now);
  bool move_data(Clock::time_point now);
  void watch(Clock::time_point now);
  void rest(Clock::time_point now) const;

  Setup setup_;
  Liveness liveness_;
  WorkQueues queues_;  ///< of the thread
  std::deque<WorkQueue> added_;
  std::size_t handed_over_ = 0;
  std::mutex mutex_;  ///< of handover_
  std::deque<WorkQueue> handover_;
  std::atomic<bool> any_handover_{false};
  std::vector<bool> reported_;  ///< by PE: its loss
  bool broken_ = false;         ///< the endpoint is lost; queues only fail what comes
  Clock::time_point busy_at_, watch_at_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace gshmem::ofi

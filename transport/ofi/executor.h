// The thread of a PE that executes its queues, serves the messages of others, drives the provider's
// progress and watches over peers. It never blocks: stop() is bounded by one round of its loop.
#pragma once

#include "transport/ofi/active_messages.h"
#include "transport/ofi/probes.h"
#include "transport/ofi/rest.h"
#include "transport/ofi/rma.h"
#include "transport/ofi/work_queues.h"

#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>

namespace gshmem::ofi {

class Executor {
 public:
  struct Setup {
    Lanes& lanes;
    MemoryAccess& heap;
    RmaEngine* rma = nullptr;            ///< null: not in use
    ActiveMessages* messages = nullptr;  ///< null: not in use
    std::vector<Peer>& peers;
    QueueServices services;
    const LaneMemory& pool;              ///< in which there is ...
    std::uint64_t probe_offset = 0;      ///< ... a word for Probes
    std::uint64_t* doorbells = nullptr;  ///< of all queues, in order
    int pe = 0;
    Clock::duration connects_within{};  ///< 0 = for ever
    Polling polling = Polling::kSleep;
    std::string near_pci{};  ///< the thread stays on cores near to it
    std::function<void(const Error& error, int pe)> on_error;
  };
  explicit Executor(const Setup& setup);
  ~Executor() { stop(); }
  Executor(const Executor&) = delete;

  /// WorkQueues belong to the thread from the next start() on; until then they can be reached here.
  void add(WorkQueue queue);
  [[nodiscard]] WorkQueue& added(std::size_t index) { return added_.at(index - handed_over_); }
  [[nodiscard]] std::size_t count() const { return handed_over_ + added_.size(); }

  /// Starts the thread, or hands it the queues added since. All PEs to which these lead, and none
  /// did before, have answered by each lane when it returns. Errors: as of Probes::wait.
  void start();
  /// Has the thread, which alone may call the provider, do it; returns or throws what it did. Where
  /// there is no thread the caller does it.
  void call(std::function<void()> what);
  void stop() noexcept;

  // The work of the thread, for a caller that is the thread itself.
  void hand_over();
  /// True when there was something to do.
  bool round(Clock::time_point now);

 private:
  void run() noexcept;
  void take_rings();
  bool move_data();
  void watch(Clock::time_point now);
  void breaks(const std::exception& error);

  Setup setup_;
  Probes probes_;
  WorkQueues queues_;  ///< of the thread
  std::deque<WorkQueue> added_;
  std::size_t handed_over_ = 0;
  std::mutex mutex_;  ///< of the next two
  std::deque<WorkQueue> handover_;
  std::deque<std::packaged_task<void()>> calls_;
  std::atomic<bool> any_handover_{false};
  std::vector<bool> reported_;  ///< by PE: its loss
  bool broken_ = false;         ///< the endpoint is lost; queues only fail what comes
  Clock::time_point busy_at_, watch_at_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace gshmem::ofi

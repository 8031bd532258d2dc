// The thread of a PE that executes its queues, executes the messages of others, drives the
// provider's progress and detects lost peers. It never blocks: stop() takes at most one round of
// its loop.
#pragma once

#include "transport/ofi/active_messages.h"
#include "transport/ofi/liveness.h"
#include "transport/ofi/idle_wait.h"
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
    OfiRails& rails;
    MemoryAccess& heap;
    RmaEngine* rma = nullptr;            ///< null: not used
    ActiveMessages* messages = nullptr;  ///< null: not used
    std::vector<Peer>& peers;
    QueueServices services;
    const RailMemory& pool;              ///< the memory that contains ...
    std::uint64_t probe_offset = 0;      ///< ... a word for Liveness
    std::uint64_t* doorbells = nullptr;  ///< doorbells of all queues, in order
    int pe = 0;
    Clock::duration connects_within{};  ///< 0 = for ever
    Polling polling = Polling::kSleep;
    std::string near_pci{};  ///< the thread runs on cores near to it
    std::function<void(const Error& error, int pe)> on_error;
  };
  explicit Executor(const Setup& setup);
  ~Executor() { stop(); }
  Executor(const Executor&) = delete;

  /// A WorkQueue belongs to the thread from the next start() on; until then `added` returns it.
  void add(WorkQueue queue);
  [[nodiscard]] WorkQueue& added(std::size_t index) { return added_.at(index - handed_over_); }
  [[nodiscard]] std::size_t count() const { return handed_over_ + added_.size(); }

  /// Starts the thread, or passes it the queues that were added since. Then it waits until all PEs
  /// to which only these queues lead have answered on each rail. Errors: see Liveness::wait.
  void start();
  /// Runs `what` on the thread, which alone may call the provider, and returns or throws its
  /// result. Without a thread the caller runs it.
  void call(std::function<void()> what);
  void stop() noexcept;

  // The work of the thread, for a caller that takes its role.
  void hand_over();
  /// Executes one round; true when there was work.
  bool round(Clock::time_point now);

 private:
  void run() noexcept;
  void take_rings();
  bool move_data();
  void watch(Clock::time_point now);
  void breaks(const std::exception& error);

  Setup setup_;
  Liveness liveness_;
  WorkQueues queues_;  ///< used by the thread only
  std::deque<WorkQueue> added_;
  std::size_t handed_over_ = 0;
  std::mutex mutex_;  ///< guards the next two
  std::deque<WorkQueue> handover_;
  std::deque<std::packaged_task<void()>> calls_;
  std::atomic<bool> any_handover_{false};
  std::vector<bool> reported_;  ///< by PE: its loss was reported
  bool broken_ = false;         ///< the endpoint is lost; new entries fail
  Clock::time_point busy_at_, watch_at_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace gshmem::ofi

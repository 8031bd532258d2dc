// Threads that the C++ headers request: the lanes of a launch in CPU mode, and PEs as threads. They
// are here, so that programs need not compile this code with every functor.
#include "host/runtime/threads.h"

#include "host/base/at_fork.h"
#include "host/base/log.h"

#include <gshmem/device/core/order_check.h>
#include <gshmem/device/pe/call_hints.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gshmem {
namespace {

using device::HostBarrier;
using device::HostLane;

/// Threads that wait for work. One host thread owns them, so its launches are ordered after each
/// other, and not after those of other PEs. A launch takes 1.4 us of processor time for a thread
/// that waits, 30 us for a new one, and 600 us for a new one under ThreadSanitizer.
class Workers {
 public:
  Workers() = default;
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Runs `body(index)` on `count` threads and waits for them. It starts all or none: a thread
  /// would wait for ever for one that could not be started. Returns 0, or the errno of the failure.
  int run(unsigned count, const std::function<void(unsigned)>& body);
  /// Ends all threads but the first `count`.
  void keep(std::size_t count) noexcept;

 private:
  struct Worker {
    std::atomic<std::uint32_t> turn{0};  ///< a change of it wakes the thread
    bool ends = false;
    std::thread thread;
  };
  struct Crew {
    std::deque<Worker> workers;  // their addresses do not change
    std::atomic<unsigned> busy{0};
    const std::function<void(unsigned)>* body = nullptr;
    /// A child of a fork has a copy of this, and none of the threads. It leaves the copy alone.
    const std::uint32_t forks = fork_count();
    Crew* before_fork = nullptr;
  };
  static void serve(Crew& crew, Worker& worker, unsigned index);
  [[nodiscard]] bool is_here() const noexcept { return crew_ && crew_->forks == fork_count(); }

  Crew* crew_ = nullptr;
};

void Workers::serve(Crew& crew, Worker& worker, unsigned index) {
  for (std::uint32_t seen = 0;;) {
    worker.turn.wait(seen);
    seen = worker.turn.load();  // the next turn may come once `busy` says that this one is over
    if (worker.ends) return;
    (*crew.body)(index);
    if (crew.busy.fetch_sub(1) == 1) crew.busy.notify_one();
  }
}

int Workers::run(unsigned count, const std::function<void(unsigned)>& body) {
  int error = 0;
  std::size_t started = 0;
  try {
    if (!is_here()) {
      auto crew = std::make_unique<Crew>();
      crew->before_fork = crew_;
      crew_ = crew.release();
    }
    for (started = crew_->workers.size(); started < count; ++started) {
      Worker& worker = crew_->workers.emplace_back();
      worker.thread =
          std::thread(serve, std::ref(*crew_), std::ref(worker), static_cast<unsigned>(started));
    }
  } catch (const std::system_error& refused) {
    error = refused.code().value();
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  if (error != 0) {
    GSHMEM_ERROR("only %zu of %u threads could be started: %s%s", started, count,
                 std::generic_category().message(error).c_str(),
                 error == EAGAIN ? " (RLIMIT_NPROC, ulimit -u, or the cgroup's pids.max)" : "");
    keep(0);
    return error;
  }
  Crew& crew = *crew_;
  crew.body = &body;
  crew.busy = count;
  for (unsigned index = 0; index < count; ++index) {
    crew.workers[index].turn.fetch_add(1);
    crew.workers[index].turn.notify_one();
  }
  for (unsigned busy = crew.busy; busy != 0; busy = crew.busy) crew.busy.wait(busy);
  constexpr std::size_t kMostIdle = 512;
  keep(kMostIdle);
  return 0;
}

void Workers::keep(std::size_t count) noexcept {
  if (!is_here()) return;
  std::deque<Worker>& workers = crew_->workers;
  for (std::size_t index = count; index < workers.size(); ++index) {
    workers[index].ends = true;
    workers[index].turn.fetch_add(1);
    workers[index].turn.notify_one();
  }
  for (; workers.size() > count; workers.pop_back()) {
    // One that could not be started has no thread.
    if (workers.back().thread.joinable()) workers.back().thread.join();
  }
}

/// Objects of the program that are destroyed later may still finalize.
Workers::~Workers() {
  keep(0);
  const bool mine = is_here();
  Crew* const crew = std::exchange(crew_, nullptr);
  if (mine) delete crew;
}

/// Those of the calling thread's launches.
thread_local Workers lanes_of_thread;

}  // namespace

void end_launch_threads() noexcept { lanes_of_thread.keep(0); }

}  // namespace gshmem

extern "C" {

__attribute__((visibility("default"))) int gshmemi_run_threads(unsigned count,
                                                               void (*body)(void*, unsigned),
                                                               void* call) {
  gshmem::Workers workers;
  return workers.run(count, [&](unsigned index) { body(call, index); });
}

__attribute__((visibility("default"))) int gshmemi_launch_on_host(unsigned blocks, unsigned threads,
                                                                  void (*body)(const void*),
                                                                  const void* call) {
  using namespace gshmem;
  constexpr unsigned kWarp = device::kHostWarpSize;
  constexpr unsigned kGroup = 4 * kWarp;
  std::deque<HostBarrier> barriers;  // their addresses do not change
  std::vector<HostLane> lanes;
  std::vector<device::Region> regions;
  try {
    regions.resize(blocks);
    for (unsigned block = 0; block < blocks; ++block) {
      HostBarrier* const whole = &barriers.emplace_back(static_cast<int>(threads));
      HostBarrier *group = nullptr, *warp = nullptr;
      for (unsigned thread = 0; thread < threads; ++thread) {
        const unsigned left = threads - thread;
        if (thread % kGroup == 0)
          group = &barriers.emplace_back(static_cast<int>(std::min(kGroup, left)));
        if (thread % kWarp == 0)
          warp = &barriers.emplace_back(static_cast<int>(std::min(kWarp, left)));
        lanes.push_back({static_cast<int>(thread), static_cast<int>(threads),
                         static_cast<int>(block), static_cast<int>(blocks), whole, warp, group});
      }
    }
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  const device::Ambient ambient = *gshmemi_ambient();
  return lanes_of_thread.run(blocks * threads, [&](unsigned index) {
    device::Ambient& mine = *gshmemi_ambient();
    mine = ambient;
    mine.lane = &lanes[index];
    mine.region = &regions[static_cast<std::size_t>(mine.lane->block_rank)];
    log_set_pe(ambient.state ? ambient.state->my_pe : -1);
    GSHMEM_ORDER(if (ambient.state) checker->join(*ambient.state);)
    body(call);
  });
}

}  // extern "C"

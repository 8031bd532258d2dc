// Threads that the C++ headers request: the lanes of a launch in CPU mode, and PEs as threads. They
// are here, so that programs need not compile this code with every functor.
#include "host/runtime/threads.h"

#include "host/base/at_fork.h"
#include "host/base/log.h"
#include "host/base/thread.h"

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
/// other, and not after launches of other PEs. A launch takes 1.4 us of processor time for a thread
/// that waits, 30 us for a new thread, and 600 us for a new thread under ThreadSanitizer.
struct Crew {
  struct Worker {
    std::atomic<std::uint32_t> turn{0};  ///< a change of it wakes the thread
    bool ends = false;
    std::thread thread;
  };
  std::deque<Worker> workers;  // their addresses do not change
  std::atomic<unsigned> busy{0};
  const std::function<void(unsigned)>* body = nullptr;
  /// A forked child has a copy of this object, and none of the threads. It does not use the copy.
  const std::uint32_t forks = fork_count();
  Crew* before_fork = nullptr;

  [[nodiscard]] bool is_here() const noexcept { return forks == fork_count(); }
};

void serve(Crew& crew, Crew::Worker& worker, unsigned index) {
  for (std::uint32_t seen = 0;;) {
    worker.turn.wait(seen);
    seen = worker.turn.load();  // after `busy` changes, the next turn may begin
    if (worker.ends) return;
    (*crew.body)(index);
    if (!crew.is_here()) return;  // the body has forked: nothing waits here
    if (crew.busy.fetch_sub(1) == 1) crew.busy.notify_one();
  }
}

/// Ends all threads but the first `count`.
void keep(Crew* crew, std::size_t count) noexcept {
  if (!crew || !crew->is_here()) return;
  std::deque<Crew::Worker>& workers = crew->workers;
  for (std::size_t index = count; index < workers.size(); ++index) {
    workers[index].ends = true;
    workers[index].turn.fetch_add(1);
    workers[index].turn.notify_one();
  }
  for (; workers.size() > count; workers.pop_back()) {
    // A worker that could not be started has no thread.
    if (workers.back().thread.joinable()) workers.back().thread.join();
  }
}

void end(Crew*& crew) noexcept {
  keep(crew, 0);
  Crew* const ended = std::exchange(crew, nullptr);
  if (ended && ended->is_here()) delete ended;
}

/// Runs `body(index)` on `count` threads and waits for them. It starts all threads or none:
/// otherwise a thread would wait for ever for one that could not be started. Returns 0, or the
/// errno of the failure. An object of type `Guard` exists while threads are started.
template <class Guard>
int run(Crew*& crew, unsigned count, const std::function<void(unsigned)>& body) {
  int error = 0;
  std::size_t started = 0;
  try {
    [[maybe_unused]] const Guard guard;
    if (!crew || !crew->is_here()) {
      auto made = std::make_unique<Crew>();
      made->before_fork = crew;
      crew = made.release();
    }
    for (started = crew->workers.size(); started < count; ++started) {
      Crew::Worker& worker = crew->workers.emplace_back();
      worker.thread =
          std::thread(serve, std::ref(*crew), std::ref(worker), static_cast<unsigned>(started));
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
    keep(crew, 0);
    return error;
  }
  crew->body = &body;
  crew->busy = count;
  for (unsigned index = 0; index < count; ++index) {
    crew->workers[index].turn.fetch_add(1);
    crew->workers[index].turn.notify_one();
  }
  for (unsigned busy = crew->busy; busy != 0; busy = crew->busy) crew->busy.wait(busy);
  return 0;
}

struct NoGuard {};  ///< for threads of the application

/// The threads of the calling thread's launches. The pointer outlives the object that ends them,
/// because objects of the program that are destroyed later may still launch and finalize.
thread_local constinit Crew* lanes_of_thread = nullptr;
struct EndOfThread {
  bool noted = false;
  ~EndOfThread() { end(lanes_of_thread); }
};
thread_local EndOfThread end_of_thread;

/// Runs the lanes of a launch.
int run_lanes(unsigned count, const std::function<void(unsigned)>& body) {
  constexpr std::size_t kMostIdle = 512;
  end_of_thread.noted = true;
  const int error = run<SignalsHeldBack>(lanes_of_thread, count, body);
  keep(lanes_of_thread, kMostIdle);
  return error;
}

}  // namespace

void end_launch_threads() noexcept { keep(lanes_of_thread, 0); }

}  // namespace gshmem

extern "C" {

__attribute__((visibility("default"))) int gshmemi_run_threads(unsigned count,
                                                               void (*body)(void*, unsigned),
                                                               void* call) {
  gshmem::Crew* crew = nullptr;
  const int error =
      gshmem::run<gshmem::NoGuard>(crew, count, [&](unsigned index) { body(call, index); });
  gshmem::end(crew);
  return error;
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
  return run_lanes(blocks * threads, [&](unsigned index) {
    device::Ambient& mine = *gshmemi_ambient();
    mine = ambient;
    mine.lane = &lanes[index];
    mine.region = &regions[static_cast<std::size_t>(mine.lane->block_rank)];
    log_set_pe(ambient.state ? ambient.state->my_pe : -1);
    GSHMEM_ORDER(if (ambient.state) checker->join(*ambient.state);)
    body(call);
    mine = {};  // these lanes end before the thread does
  });
}

}  // extern "C"

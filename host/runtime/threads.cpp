// Threads that the C++ headers request: the lanes of a launch in CPU mode, and PEs as threads. They
// are here, so that programs need not compile this code with every functor.
#include "host/base/log.h"

#include <gshmem/device/core/order_check.h>
#include <gshmem/device/pe/call_hints.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <deque>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace gshmem {
namespace {

using device::HostBarrier;
using device::HostLane;

/// Runs `body(index)` on `count` threads and waits for them. It starts all or none: a thread would
/// wait for ever for one that could not be started. Returns 0, or the errno of the failure.
template <class Body>
int run_all(unsigned count, const Body& body) {
  enum Start { kWait, kGo, kLeave };
  std::atomic<Start> start{kWait};
  std::vector<std::thread> threads;
  int error = 0;
  try {
    for (unsigned index = 0; index < count; ++index) {
      threads.emplace_back([&start, &body, index] {
        start.wait(kWait);
        if (start.load() == kGo) body(index);
      });
    }
  } catch (const std::system_error& refused) {
    error = refused.code().value();
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  start.store(error == 0 ? kGo : kLeave);
  start.notify_all();
  for (std::thread& thread : threads) thread.join();
  if (error != 0) {
    GSHMEM_ERROR("only %zu of %u threads could be started: %s%s", threads.size(), count,
                 std::generic_category().message(error).c_str(),
                 error == EAGAIN ? " (RLIMIT_NPROC, ulimit -u, or the cgroup's pids.max)" : "");
  }
  return error;
}

}  // namespace
}  // namespace gshmem

extern "C" {

__attribute__((visibility("default"))) int gshmemi_run_threads(unsigned count,
                                                               void (*body)(void*, unsigned),
                                                               void* call) {
  return gshmem::run_all(count, [&](unsigned index) { body(call, index); });
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
  return run_all(blocks * threads, [&](unsigned index) {
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

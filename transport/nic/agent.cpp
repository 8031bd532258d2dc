#include "transport/nic/agent.h"

#include <gshmem/abi/doorbell_cpu.h>

#include "host/base/thread.h"

#include <chrono>

namespace gshmem::nic {
namespace {

/// Decides how the thread waits. A GPU cannot wake it, so it must poll. But it must not take a core
/// from threads that work. It spins while there is traffic, then yields, then sleeps.
class Idle {
 public:
  /// Call this after a round that found work.
  void busy() noexcept { rounds_ = 0; }
  /// Call this after a round that found no work.
  void wait() {
    if (rounds_ == kRounds) return std::this_thread::sleep_for(kSleep);
    if (++rounds_ > kSpins) std::this_thread::yield();
  }

 private:
  static constexpr int kSpins = 200, kRounds = 300;
  static constexpr std::chrono::microseconds kSleep{20};  // 70 us with the usual timer slack
  int rounds_ = 0;
};

}  // namespace

Agent::Agent(std::vector<Route> routes)
    : routes_(std::move(routes)), thread_(start_thread([this] { run(); })) {}

Agent::~Agent() {
  stop_.store(true, std::memory_order_release);  // pairs with run
  thread_.join();
}

void Agent::add(const std::vector<Route>& routes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  added_.insert(added_.end(), routes.begin(), routes.end());
  any_added_.store(true, std::memory_order_release);  // pairs with take_added
}

void Agent::take_added() {
  if (!any_added_.exchange(false, std::memory_order_acquire)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  routes_.insert(routes_.end(), added_.begin(), added_.end());
  added_.clear();
}

bool Agent::forward() {
  take_added();
  bool any = false;
  for (Route& route : routes_) {
    // Acquire pairs with the release before store_doorbell (device/network/queue.h): entries and
    // doorbell record are visible before the register is written.
    const std::uint64_t value = __atomic_load_n(route.word, __ATOMIC_ACQUIRE);
    if (value == route.forwarded) continue;
    // A full fence is needed: no weaker instruction orders stores to write-combining registers.
    __atomic_fetch_add(&route.forwarded, value - route.forwarded, __ATOMIC_SEQ_CST);
    abi::store_register(route.doorbell, value);
    any = true;
  }
  return any;
}

void Agent::run() {
  Idle idle;
  while (!stop_.load(std::memory_order_acquire)) {
    if (forward()) {
      idle.busy();
    } else {
      idle.wait();
    }
  }
  forward();
}

}  // namespace gshmem::nic

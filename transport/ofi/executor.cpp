#include "transport/ofi/executor.h"

#include "host/base/thread.h"

#include <sys/prctl.h>
#include <time.h>

#include <exception>

namespace gshmem::ofi {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Spinning pays for round trips of about 10 us (tcp on one host); yielding leaves the core to the
// other side of the connection, which on small machines is the one that has to run.
constexpr microseconds kSpin{20}, kYield{300}, kDoze{20'000}, kIdle{500'000};
constexpr long kDozeNs = 20'000, kSleepNs = 60'000, kIdleNs = 100'000;
constexpr auto kWatch = milliseconds(20);

void sleep_ns(long ns) {
  const timespec time{0, ns};
  nanosleep(&time, nullptr);
}

}  // namespace

Executor::Executor(const Setup& setup)
    : setup_(setup),
      liveness_(setup.fabric, setup.peers, setup.services),
      reported_(setup.peers.size()) {}

void Executor::add(WorkQueue queue) { added_.push_back(std::move(queue)); }

void Executor::start() {
  handed_over_ += added_.size();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (WorkQueue& queue : added_) handover_.push_back(std::move(queue));
    any_handover_.store(true, std::memory_order_release);  // pairs with take_rings
  }
  added_.clear();
  if (!thread_.joinable()) thread_ = start_thread([this] { run(); });
}

void Executor::take_rings() {
  if (!any_handover_.load(std::memory_order_acquire)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (WorkQueue& queue : handover_) queues_.add(std::move(queue));
  handover_.clear();
  any_handover_.store(false, std::memory_order_relaxed);
}

void Executor::stop() noexcept {
  // Relaxed: join() orders everything else.
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

void Executor::run() noexcept {
  log_set_pe(setup_.pe);
  // Sleeps of 20 us would last 70 with the usual slack of 50 us (PR_SET_TIMERSLACK(2const)).
  prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  try {
    setup_.heap.attach_thread();
  } catch (const std::exception& error) {
    broken_ = true;
    setup_.on_error(Error(GSHMEMX_ERROR_NIC, error.what()), -1);
  }
  busy_at_ = watch_at_ = Clock::now();
  while (!stop_.load(std::memory_order_relaxed)) {
    const Clock::time_point now = Clock::now();
    if (step(now))
      busy_at_ = now;
    else
      rest(now);
  }
}

bool Executor::step(Clock::time_point now) {
  take_rings();
  bool busy = false;
  if (!broken_) {
    try {
      busy = move_data(now);
    } catch (const std::exception& error) {
      broken_ = true;
      setup_.on_error(Error(GSHMEMX_ERROR_NIC, error.what()), -1);
      for (Peer& peer : setup_.peers)
        if (peer.lost.empty()) peer.lost = error.what();
      reported_.assign(reported_.size(), true);
    }
  }
  busy |= queues_.step(setup_.services, now);
  if (now >= watch_at_) watch(now);
  return busy;
}

bool Executor::move_data(Clock::time_point) {
  bool busy = setup_.fabric.poll();
  if (setup_.messages != nullptr) busy |= setup_.messages->progress();
  return busy;
}

void Executor::watch(Clock::time_point now) {
  watch_at_ = now + kWatch;
  if (!broken_)
    for (const WorkQueue& queue : queues_.all())
      if (const auto since = queue.waiting_since()) liveness_.waiting(queue.peer().pe, *since, now);
  for (std::size_t pe = 0; pe < setup_.peers.size(); ++pe) {
    if (setup_.peers[pe].lost.empty() || reported_[pe] || now < setup_.peers[pe].report_at)
      continue;
    reported_[pe] = true;
    if (setup_.messages != nullptr) setup_.messages->peer_lost(static_cast<int>(pe));
    setup_.on_error(
        Error(GSHMEMX_ERROR_PEER_FAILED,
              strprintf("PE %zu cannot be reached any more: ", pe) + setup_.peers[pe].lost),
        static_cast<int>(pe));
  }
}

void Executor::rest(Clock::time_point now) const {
  const auto idle = now - busy_at_;
  // A provider that makes progress by threads of its own wants the core for them: with spinning or
  // yielding here, `sockets` on two cores took 4 to 6 ms per operation.
  const bool own_threads = setup_.fabric.info().domain_attr->data_progress == FI_PROGRESS_AUTO;
  if (!own_threads && idle < kSpin) return;
  if (!own_threads && idle < kYield)
    std::this_thread::yield();
  else if (!own_threads && idle < kDoze)
    sleep_ns(kDozeNs);
  else
    sleep_ns(idle < kIdle ? kSleepNs : kIdleNs);
}

}  // namespace gshmem::ofi

#include "transport/ofi/executor.h"

#include "host/base/thread.h"
#include "transport/ofi/provider_error.h"

#include <sys/prctl.h>

#include <exception>
#include <utility>

namespace gshmem::ofi {
namespace {

constexpr auto kWatch = std::chrono::milliseconds(20);
/// The number of rounds without work between two reads of the clock. A read takes as long as half a
/// round.
constexpr unsigned kRoundsPerLook = 16;

}  // namespace

Executor::Executor(const Setup& setup)
    : setup_(setup),
      liveness_(setup.rails, setup.peers, setup.pool, setup.probe_offset),
      queues_(setup.doorbells),
      reported_(setup.peers.size()) {}

void Executor::add(WorkQueue queue) { added_.push_back(std::move(queue)); }

void Executor::hand_over() {
  handed_over_ += added_.size();
  for (WorkQueue& queue : added_) liveness_.expect(queue.peer());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (WorkQueue& queue : std::exchange(added_, {})) handover_.push_back(std::move(queue));
    any_handover_.store(true, std::memory_order_release);  // pairs with take_rings
  }
}

void Executor::start() {
  hand_over();
  if (!thread_.joinable()) thread_ = start_thread([this] { run(); });
  liveness_.wait(setup_.connects_within);
}

void Executor::call(std::function<void()> what) {
  if (!thread_.joinable()) return what();
  std::packaged_task<void()> task(std::move(what));
  std::future<void> done = task.get_future();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.push_back(std::move(task));
    any_handover_.store(true, std::memory_order_release);  // pairs with take_rings
  }
  done.get();
}

void Executor::take_rings() {
  if (!any_handover_.load(std::memory_order_acquire)) return;
  std::deque<std::packaged_task<void()>> calls;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (WorkQueue& queue : std::exchange(handover_, {})) queues_.add(std::move(queue));
    calls.swap(calls_);
    any_handover_.store(false, std::memory_order_relaxed);
  }
  for (auto& call : calls) call();
}

void Executor::stop() noexcept {
  // Relaxed is enough: join() orders everything else.
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

void Executor::run() noexcept {
  log_set_pe(setup_.pe);
  // Sleeps of 20 us would last 70 us with the default timer slack of 50 us
  // (PR_SET_TIMERSLACK(2const)).
  prctl(PR_SET_TIMERSLACK, 1000);
  stay_near("/sys", setup_.near_pci);
  try {
    setup_.heap.attach_thread();
  } catch (const std::exception& error) {
    breaks(error);
  }
  Clock::time_point now = busy_at_ = watch_at_ = Clock::now();
  unsigned looks = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    const bool busy = round(now);
    if (busy) busy_at_ = now;
    const bool look = busy || setup_.polling != Polling::kSpin || ++looks % kRoundsPerLook == 0;
    if (look) now = Clock::now();
    if (!busy) idle_wait(setup_.polling, now - busy_at_);
  }
}

void Executor::breaks(const std::exception& error) {
  broken_ = true;
  liveness_.give_up(error.what());
  setup_.on_error(Error(GSHMEMX_ERROR_NIC, error.what()), -1);
  for (Peer& peer : setup_.peers) lose(peer, error.what());
  reported_.assign(reported_.size(), true);
}

bool Executor::round(Clock::time_point now) {
  take_rings();
  bool busy = false;
  try {
    if (!broken_) busy = move_data();
    busy |= queues_.step(setup_.services, now);
    if (!broken_ && setup_.rma != nullptr) setup_.rma->end_round();
  } catch (const std::exception& error) {
    breaks(error);
  }
  if (now >= watch_at_) watch(now);
  return busy;
}

bool Executor::move_data() {
  bool busy = setup_.rails.poll();
  busy |= liveness_.progress();
  if (setup_.messages != nullptr) busy |= setup_.messages->progress();
  if (setup_.rma != nullptr) busy |= setup_.rma->progress();
  return busy;
}

void Executor::watch(Clock::time_point now) {
  watch_at_ = now + kWatch;
  queues_.find_overdue(setup_.services, now);
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

}  // namespace gshmem::ofi

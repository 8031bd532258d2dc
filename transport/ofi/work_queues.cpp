#include "transport/ofi/work_queues.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace gshmem::ofi {
namespace {

constexpr std::size_t kWords = 32;  ///< number of words that are checked together: four cache lines

/// Other threads store to the words in the meantime: a word that is found is read again, as an
/// atomic. These are plain loads, because compilers do not vectorize atomic loads.
[[gnu::no_sanitize_thread]] bool all_ones(const std::uint64_t* words) {
  std::uint64_t all = ~std::uint64_t{0};
  for (std::size_t i = 0; i < kWords; ++i) all &= words[i];
  return all == ~std::uint64_t{0};
}

#if defined(__x86_64__)
/// A vector of four words.
using Vector [[gnu::vector_size(32)]] = std::uint64_t;

[[gnu::target("avx2"), gnu::always_inline]] inline Vector load(const std::uint64_t* words) {
  Vector vector;
  std::memcpy(&vector, words, sizeof(vector));
  return vector;
}
[[gnu::target("avx2"), gnu::no_sanitize_thread]] std::size_t skip_wide(const std::uint64_t* words,
                                                                       std::size_t at,
                                                                       std::size_t end) {
  for (; at + kWords <= end; at += kWords) {
    const std::uint64_t* const w = words + at;
    const Vector left = load(w) & load(w + 4) & load(w + 8) & load(w + 12);
    const Vector right = load(w + 16) & load(w + 20) & load(w + 24) & load(w + 28);
    const Vector all = left & right;
    if ((all[0] & all[1] & all[2] & all[3]) != ~std::uint64_t{0}) break;
  }
  return at;
}
#else
std::size_t skip_wide(const std::uint64_t*, std::size_t at, std::size_t) { return at; }
#endif

std::size_t skip_narrow(const std::uint64_t* words, std::size_t at, std::size_t end) {
  while (at + kWords <= end && all_ones(words + at)) at += kWords;
  return at;
}

}  // namespace

bool has_wide_loads() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
#else
  return false;
#endif
}

std::size_t first_rung(const std::uint64_t* words, std::size_t begin, std::size_t end, bool wide) {
  std::size_t at = wide ? skip_wide(words, begin, end) : skip_narrow(words, begin, end);
  const auto load = [&](std::size_t i) {
    return std::atomic_ref(const_cast<std::uint64_t&>(words[i])).load(std::memory_order_relaxed);
  };
  while (at < end && load(at) == ~std::uint64_t{0}) ++at;
  return at;
}

void WorkQueues::read_doorbells() {
  const std::size_t count = queues_.size();
  for (std::size_t at = first_rung(doorbells_, 0, count); at < count;
       at = first_rung(doorbells_, at + 1, count)) {
    // Pairs with the release of the thread that rings (device/network/queue.h): the entries are
    // visible.
    const std::uint64_t value =
        std::atomic_ref(doorbells_[at]).exchange(kNotRung, std::memory_order_acquire);
    if (value != kNotRung) queues_[at].rung(value);
  }
}

bool WorkQueues::step(QueueServices& services, Clock::time_point now) {
  read_doorbells();
  if (ready_.empty() && hungry_.empty()) return false;
  turn_.swap(hungry_);
  turn_.insert(turn_.end(), ready_.begin(), ready_.end());
  bool busy = !ready_.empty();  // a queue is in the list when it has work
  ready_.clear();
  // The queues that got no space keep their order.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < turn_.size(); ++i) {
    WorkQueue* const queue = turn_[i];
    queue->step(services, now);
    busy |= queue->served();
    if (!queue->hungry() || queue->listed()) continue;
    queue->stays_listed();
    if (queue->served())
      hungry_.push_back(queue);
    else
      turn_[kept++] = queue;
  }
  turn_.resize(kept);
  turn_.insert(turn_.end(), hungry_.begin(), hungry_.end());
  hungry_.swap(turn_);
  turn_.clear();
  return busy;
}

void WorkQueues::find_overdue(const QueueServices& services, Clock::time_point now) {
  for (WorkQueue& queue : queues_) queue.find_overdue(services, now);
}

}  // namespace gshmem::ofi

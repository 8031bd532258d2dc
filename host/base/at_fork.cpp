#include "host/base/at_fork.h"

#include "host/base/error.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>

namespace gshmem {
namespace {

struct Held {
  void (*in_child)() noexcept = nullptr;
  /// A release store after in_child is set; acquired by prepare.
  std::atomic<std::mutex*> mutex{nullptr};
  std::mutex* taken = nullptr;  ///< held by the fork in progress
};

struct Forks {
  static constexpr std::size_t kMostHeld = 16;  // the library has fewer such mutexes
  static constexpr std::size_t kWords = std::size_t{1} << 14;

  std::atomic<std::uint32_t> count{0};
  std::mutex mutex;  ///< held during a fork
  std::array<Held, kMostHeld> held{};
  std::atomic<std::size_t> n_held{0};
  /// One bit per descriptor. All accesses are relaxed: fork copies memory and descriptors at the
  /// same time.
  std::array<std::atomic<std::uint64_t>, kWords> open{};
  std::atomic<std::size_t> n_words{0};  ///< number of words of `open` that may have bits set
};
constinit Forks forks;

void prepare() noexcept {
  forks.mutex.lock();
  for (Held& held : forks.held) {
    held.taken = held.mutex.load(std::memory_order_acquire);
    if (held.taken) held.taken->lock();
  }
}
void release() noexcept {
  for (const Held& held : forks.held) {
    if (held.taken) held.taken->unlock();
  }
  forks.mutex.unlock();
}

void close_all() noexcept {
  const std::size_t n = forks.n_words.load(std::memory_order_relaxed);
  for (std::size_t word = 0; word < n; ++word) {
    std::uint64_t bits = forks.open[word].exchange(0, std::memory_order_relaxed);
    for (; bits != 0; bits &= bits - 1)
      (void)::close(static_cast<int>(word) * 64 + std::countr_zero(bits));
  }
}
void in_child() noexcept {
  close_all();
  forks.count.fetch_add(1, std::memory_order_relaxed);  // the child has a single thread
  for (const Held& held : forks.held) {
    if (held.taken && held.in_child) held.in_child();
  }
  release();
}

/// Returns false if there is no memory.
bool watch_forks() noexcept {
  static const bool watched = ::pthread_atfork(prepare, release, in_child) == 0;
  return watched;
}
/// Runs when the library is loaded. If the first use did it, a fork could happen meanwhile, and its
/// child would wait for a thread that it does not have.
[[maybe_unused]] const bool at_load = watch_forks();

std::atomic<std::uint64_t>* word_of(int fd) noexcept {
  // A negative fd gives a word beyond the end.
  const std::size_t word = static_cast<std::size_t>(fd) / 64;
  return word < Forks::kWords ? &forks.open[word] : nullptr;
}
std::uint64_t bit_of(int fd) noexcept { return std::uint64_t{1} << (fd % 64); }

}  // namespace

std::uint32_t fork_count() noexcept { return forks.count.load(std::memory_order_relaxed); }

void close_in_children(int fd) noexcept {
  auto* word = word_of(fd);
  if (!word) return;
  const std::size_t needed = static_cast<std::size_t>(fd) / 64 + 1;
  std::size_t n = forks.n_words.load(std::memory_order_relaxed);
  while (n < needed && !forks.n_words.compare_exchange_weak(n, needed, std::memory_order_relaxed)) {
  }
  word->fetch_or(bit_of(fd), std::memory_order_relaxed);
}

void keep_in_children(int fd) noexcept {
  if (auto* word = word_of(fd)) word->fetch_and(~bit_of(fd), std::memory_order_relaxed);
}

void hold_over_forks(std::mutex& mutex, void (*in_child)() noexcept) {
  const std::size_t n = forks.n_held.fetch_add(1, std::memory_order_relaxed);
  require(watch_forks() && n < Forks::kMostHeld, GSHMEMX_ERROR_INTERNAL,
          "forks cannot be watched, or there are more mutexes than there is room for");
  Held& held = forks.held[n];
  held.in_child = in_child;
  held.mutex.store(&mutex, std::memory_order_release);
}

}  // namespace gshmem

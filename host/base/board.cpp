#include "host/base/board.h"

#include "host/base/layout.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <ctime>
#include <thread>

namespace gshmem {
namespace {

/// The interval at which `interrupted` is called. An interruption need not wake the waiter.
constexpr double kLookSeconds = 0.01;

/// Chunk numbers are truncated to a word; their distance is small.
bool reached(std::uint32_t word, std::uint64_t number) {
  return static_cast<std::int32_t>(word - static_cast<std::uint32_t>(number)) >= 0;
}

/// A futex call for a word in memory that processes share.
long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* limit) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  return ::syscall(SYS_futex, &word, operation, value, limit);
}

}  // namespace

struct Board::Head {
  alignas(kAlignment) std::atomic<std::uint64_t> arrived;  ///< chunks contributed by all ranks
  /// The last chunk that all ranks have contributed.
  alignas(kAlignment) std::atomic<std::uint32_t> all_here;
  std::atomic<std::uint32_t> released;  ///< the last chunk whose result is available
  std::atomic<std::uint32_t> waiting;   ///< number of ranks that sleep, or are about to
  std::atomic<std::uint64_t> missing;   ///< chunk number (32 bits) and the missing PE (32 bits)
};

struct Board::Slot {
  alignas(kAlignment) std::atomic<std::uint64_t> number;  ///< number of the rank's last chunk
  std::atomic<std::uint32_t> departed;
  std::uint64_t left[2];
  alignas(kAlignment) char data[2][kPieceBytes];  ///< for chunks with even and odd numbers
};

std::size_t Board::bytes_of(int size, std::size_t result_bytes) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  return sizeof(Head) + sizeof(Slot) * static_cast<std::size_t>(size) + result_bytes;
}

std::uint64_t Board::layout() {
  return layout_of({sizeof(Head), offsetof(Head, all_here), offsetof(Head, released),
                    offsetof(Head, waiting), offsetof(Head, missing), sizeof(Slot),
                    offsetof(Slot, departed), offsetof(Slot, left), offsetof(Slot, data)});
}

// All fields start as zero.
Board::Board(void* memory, int rank, int size)
    : head_(*static_cast<Head*>(memory)),
      slots_(static_cast<char*>(memory) + sizeof(Head)),
      result_(slots_ + sizeof(Slot) * static_cast<std::size_t>(size)),
      rank_(rank),
      size_(size),
      yields_(static_cast<unsigned>(size) <= std::thread::hardware_concurrency() ? 1000 : 16) {}

Board::Slot& Board::slot(int rank) const { return reinterpret_cast<Slot*>(slots_)[rank]; }

void Board::bring(const void* data, std::size_t left) {
  Slot& mine = slot(rank_);
  ++number_;
  const std::size_t bytes = std::min(left, kPieceBytes);
  std::copy_n(static_cast<const char*>(data), bytes, mine.data[number_ % 2]);
  mine.left[number_ % 2] = left;
  mine.number.store(number_, std::memory_order_release);  // read by missing()
  // No rank enters a chunk before all ranks have entered the previous one. The data that each rank
  // has stored is visible to the last rank that arrives, and to the ranks that see its word.
  const std::uint64_t all = number_ * static_cast<std::uint64_t>(size_);
  if (head_.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == all) {
    head_.all_here.store(static_cast<std::uint32_t>(number_), std::memory_order_seq_cst);
    wake(head_.all_here);
  }
}

Board::Piece Board::of(int rank) const {
  const Slot& from = slot(rank);
  const std::size_t left = from.left[number_ % 2];
  return {from.data[number_ % 2], std::min(left, kPieceBytes), left};
}

std::vector<int> Board::missing(std::uint64_t number) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (slot(rank).number.load(std::memory_order_acquire) < number) ranks.push_back(rank);
  }
  return ranks;
}

Board::Waited Board::await_all(const Deadline& deadline,
                               const std::function<bool()>& interrupted) const {
  return wait(head_.all_here, deadline, interrupted);
}

Board::Waited Board::await_release(const Deadline& deadline,
                                   const std::function<bool()>& interrupted) const {
  return wait(head_.released, deadline, interrupted);
}

void Board::release(std::uint64_t number) {
  head_.released.store(static_cast<std::uint32_t>(number), std::memory_order_seq_cst);
  wake(head_.released);
}

void Board::report_missing(std::uint64_t number, int who) {
  head_.missing.store(number << 32 | static_cast<std::uint32_t>(who), std::memory_order_release);
  wake(head_.released);
}

int Board::reported_missing() const {
  const std::uint64_t told = head_.missing.load(std::memory_order_acquire);
  return told >> 32 == (number_ & UINT32_MAX) ? static_cast<int>(told & UINT32_MAX) : -1;
}

void Board::depart() {
  slot(rank_).departed.store(1, std::memory_order_release);
  wake(head_.all_here);
}

bool Board::departed(int rank) const {
  return slot(rank).departed.load(std::memory_order_acquire) != 0;
}

/// Pairs with the sleeper in wait(). The sleeper counts itself and then reads the word; here the
/// word is stored before the count is read. So one of them sees the other.
void Board::wake(const std::atomic<std::uint32_t>& word) const {
  if (head_.waiting.load(std::memory_order_seq_cst) > 0)
    (void)futex(word, FUTEX_WAKE, INT_MAX, nullptr);
}

Board::Waited Board::wait(const std::atomic<std::uint32_t>& word, const Deadline& deadline,
                          const std::function<bool()>& interrupted) const {
  constexpr unsigned kPolls = 64;
  for (unsigned i = 0; i < kPolls + yields_; ++i) {
    if (reached(word.load(std::memory_order_acquire), number_)) return Waited::kDone;
    if (i >= kPolls) sched_yield();
  }
  for (;;) {
    const bool stop = interrupted(), late = deadline.passed();
    // The word is checked again: this wait may have ended before the interruption, and may have
    // caused it.
    if (reached(word.load(std::memory_order_acquire), number_)) return Waited::kDone;
    if (stop) return Waited::kInterrupted;
    if (late) return Waited::kTimeout;
    const timespec limit{0, deadline.within(kLookSeconds).poll_ms() * 1'000'000L};
    head_.waiting.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t seen = word.load(std::memory_order_seq_cst);
    if (!reached(seen, number_)) (void)futex(word, FUTEX_WAIT, seen, &limit);
    head_.waiting.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace gshmem

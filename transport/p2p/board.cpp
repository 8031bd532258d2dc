#include "transport/p2p/board.h"

#include "transport/p2p/shared_mapping.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace gshmem::p2p {
namespace {

class SharedBoard final : public Board {
 public:
  SharedBoard(PeerSockets& sockets, std::function<bool()> stopped);
  void allgather(const void* send, void* recv, std::size_t bytes, double timeout_seconds) override {
    exchange(static_cast<const char*>(send), bytes, static_cast<char*>(recv), {0, bytes},
             timeout_seconds);
  }
  bool alltoall(const void* send, void* recv, std::size_t bytes, double timeout_seconds) override {
    exchange(static_cast<const char*>(send), bytes * static_cast<std::size_t>(size_),
             static_cast<char*>(recv), {bytes * static_cast<std::size_t>(rank_), bytes},
             timeout_seconds);
    return true;
  }

 private:
  static constexpr std::size_t kPieceBytes = 2048;
  /// One PE's place. `published` counts its pieces; piece k is in payload[k % 2]: a PE can only be
  /// two pieces ahead when everyone has read the older one.
  struct Slot {
    alignas(128) std::atomic<std::uint64_t> published;
    std::size_t bytes[2];
    alignas(128) char payload[2][kPieceBytes];
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  /// A part of what a PE brings: `at` bytes from its beginning.
  struct Part {
    std::size_t at, bytes;
  };
  void exchange(const char* send, std::size_t bytes, char* recv, Part part, double timeout_seconds);
  void wait_for(int pe, std::uint64_t sequence, double timeout_seconds);

  int rank_, size_;
  std::function<bool()> stopped_;
  std::shared_ptr<SharedMapping> mapping_;
  Slot* slots_ = nullptr;
  std::uint64_t sequence_ = 0;
};

SharedBoard::SharedBoard(PeerSockets& sockets, std::function<bool()> stopped)
    : rank_(sockets.group().index), size_(sockets.size()), stopped_(std::move(stopped)) {
  const std::uint64_t bytes = sizeof(Slot) * static_cast<std::uint64_t>(size_);
  const Fd mine = rank_ == 0 ? make_segment("gshmem-board", bytes) : Fd();
  mapping_ = map_shared(sockets.from_root(mine.get()), bytes, alignof(Slot));
  // A new segment is zero, which is every slot's initial state.
  slots_ = reinterpret_cast<Slot*>(mapping_->base());
}

void SharedBoard::wait_for(int pe, std::uint64_t sequence, double timeout_seconds) {
  const std::atomic<std::uint64_t>& published = slots_[pe].published;
  const auto start = std::chrono::steady_clock::now();
  for (unsigned polls = 0; published.load(std::memory_order_acquire) < sequence; ++polls) {
    if (polls < 64) continue;
    if (polls < 1000) {
      sched_yield();
      continue;
    }
    if (stopped_()) {
      // The PE that stopped us may have seen all arrive since our last look.
      if (published.load(std::memory_order_acquire) >= sequence) return;
      // Not for which PE: it may miss because of what stopped us.
      throw Error(GSHMEMX_ERROR_PEER_FAILED, "stopped while waiting in a host barrier");
    }
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    require(timeout_seconds <= 0 || waited.count() < timeout_seconds, GSHMEMX_ERROR_TIMEOUT, [&] {
      return strprintf("PE %d did not reach a host barrier within %.3g s", pe, timeout_seconds);
    });
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

/// Brings `bytes`, piece by piece, and copies `part` of what each PE brings. Of a PE that brings
/// less the rest is zero: it has called something else, and whoever compares the data sees it.
void SharedBoard::exchange(const char* send, std::size_t bytes, char* recv, Part part,
                           double timeout_seconds) {
  std::size_t at = 0;
  do {
    const std::uint64_t sequence = ++sequence_;
    const std::size_t side = sequence % 2, piece = std::min(kPieceBytes, bytes - at);
    const std::size_t first = std::clamp(part.at, at, at + piece),
                      end = std::clamp(part.at + part.bytes, at, at + piece);
    Slot& mine = slots_[rank_];
    if (piece > 0) std::memcpy(mine.payload[side], send + at, piece);
    mine.bytes[side] = piece;
    mine.published.store(sequence, std::memory_order_release);  // pairs with wait_for
    for (int pe = 0; pe < size_; ++pe) {
      wait_for(pe, sequence, timeout_seconds);
      if (first == end) continue;
      char* const to = recv + part.bytes * static_cast<std::size_t>(pe) + (first - part.at);
      const std::size_t there = std::clamp(at + slots_[pe].bytes[side], first, end) - first;
      std::memcpy(to, slots_[pe].payload[side] + (first - at), there);
      std::memset(to + there, 0, end - first - there);
    }
    at += piece;
  } while (at < bytes);
}

}  // namespace

std::unique_ptr<Board> make_shared_board(PeerSockets& sockets, std::function<bool()> stopped) {
  return std::make_unique<SharedBoard>(sockets, std::move(stopped));
}

}  // namespace gshmem::p2p

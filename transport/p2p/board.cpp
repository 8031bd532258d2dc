#include "transport/p2p/board.h"

#include "transport/p2p/shared_mapping.h"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace gshmem::p2p {
namespace {

class SharedBoard final : public Board {
 public:
  SharedBoard(PeerSockets& sockets, std::function<bool()> stopped);
  void allgather(const void* send, void* recv, std::size_t bytes, double timeout_seconds) override;

 private:
  /// One PE's place. `published` counts its calls; the payload of call k is in payload[k % 2]: a
  /// PE can only be two calls ahead when everyone has read the older one.
  struct Slot {
    alignas(128) std::atomic<std::uint64_t> published;
    alignas(128) unsigned char payload[2][kPayloadBytes];
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
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

void SharedBoard::allgather(const void* send, void* recv, std::size_t bytes,
                            double timeout_seconds) {
  require(bytes <= kPayloadBytes, GSHMEMX_ERROR_INTERNAL,
          strprintf("board payload of %zu bytes", bytes));
  const std::uint64_t sequence = ++sequence_;
  const std::size_t side = sequence % 2;
  if (bytes > 0) std::memcpy(slots_[rank_].payload[side], send, bytes);
  // A PE that brings less than the others do has called something else, and must not seem to bring
  // what it brought two calls ago.
  std::memset(slots_[rank_].payload[side] + bytes, 0, kPayloadBytes - bytes);
  slots_[rank_].published.store(sequence, std::memory_order_release);  // pairs with wait_for
  for (int pe = 0; pe < size_; ++pe) {
    wait_for(pe, sequence, timeout_seconds);
    if (bytes > 0) {
      std::memcpy(static_cast<char*>(recv) + bytes * static_cast<std::size_t>(pe),
                  slots_[pe].payload[side], bytes);
    }
  }
}

}  // namespace

std::unique_ptr<Board> make_shared_board(PeerSockets& sockets, std::function<bool()> stopped) {
  return std::make_unique<SharedBoard>(sockets, std::move(stopped));
}

}  // namespace gshmem::p2p

// The board: a few hundred bytes per PE in memory that all PEs of a host share, for the collectives
// that host threads need after init (barrier, agreement on malloc sizes). Microseconds, no
// launcher. Invariant: a call ends with everyone's data, or with an Error after a peer's death or
// the timeout.
#pragma once

#include "transport/p2p/peer_sockets.h"
#include "transport/p2p/shared_mapping.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace gshmem::p2p {

class Board {
 public:
  static constexpr std::size_t kPayloadBytes = 256;

  /// Collective. `stopped()` is asked while waiting; true ends the wait with
  /// GSHMEMX_ERROR_PEER_FAILED.
  Board(PeerSockets& sockets, int rank, std::function<bool()> stopped);
  Board(const Board&) = delete;

  /// Shape: `bytes` (at most kPayloadBytes) from every PE, size*bytes into `recv`.
  /// Errors: GSHMEMX_ERROR_TIMEOUT naming the first PE that is missing after `timeout_seconds`
  /// (0 = wait for ever), GSHMEMX_ERROR_PEER_FAILED. Threads: one at a time per PE.
  void allgather(const void* send, void* recv, std::size_t bytes, double timeout_seconds);
  void barrier(double timeout_seconds) { allgather(nullptr, nullptr, 0, timeout_seconds); }

 private:
  struct Slot;
  void wait_for(int pe, std::uint64_t sequence, double timeout_seconds);

  int rank_, size_;
  std::function<bool()> stopped_;
  std::shared_ptr<SharedMapping> mapping_;
  Slot* slots_ = nullptr;
  std::uint64_t sequence_ = 0;
};

}  // namespace gshmem::p2p

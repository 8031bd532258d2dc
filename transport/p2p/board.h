// The board: host threads' collectives (barrier, agreement on malloc sizes), a few hundred bytes
// per PE. On one host it is in memory that all PEs share: microseconds, no launcher, and init goes
// over it from then on. Invariant: a call ends with everyone's data, or with an Error after a
// peer's death or the timeout.
#pragma once

#include "transport/p2p/peer_sockets.h"

#include <cstddef>
#include <functional>
#include <memory>

namespace gshmem::p2p {

class Board {
 public:
  Board() = default;
  virtual ~Board() = default;
  Board(const Board&) = delete;

  /// Shape: `bytes` from every PE, size*bytes into `recv`.
  /// Errors: GSHMEMX_ERROR_TIMEOUT naming the first PE that is missing after `timeout_seconds`
  /// (0 = wait for ever), GSHMEMX_ERROR_PEER_FAILED. Threads: one at a time per PE.
  virtual void allgather(const void* send, void* recv, std::size_t bytes,
                         double timeout_seconds) = 0;
  /// As bootstrap::Bootstrap's. False = not done: nothing is better here than an allgather.
  virtual bool alltoall(const void* /*send*/, void* /*recv*/, std::size_t /*bytes*/,
                        double /*timeout_seconds*/) {
    return false;
  }
  void barrier(double timeout_seconds) { allgather(nullptr, nullptr, 0, timeout_seconds); }
};

/// Collective; of a job on one host. `stopped()` is asked while waiting; true ends the wait with
/// GSHMEMX_ERROR_PEER_FAILED.
[[nodiscard]] std::unique_ptr<Board> make_shared_board(PeerSockets& sockets,
                                                       std::function<bool()> stopped);

}  // namespace gshmem::p2p

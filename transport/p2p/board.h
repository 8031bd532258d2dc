// The board: host threads' collectives after init (barrier, agreement on malloc sizes), a few
// hundred bytes per PE. On one host it is in memory that all PEs share: microseconds, no
// launcher. Invariant: a call ends with everyone's data, or with an Error after a peer's death or
// the timeout.
#pragma once

#include "transport/p2p/peer_sockets.h"

#include <cstddef>
#include <functional>
#include <memory>

namespace gshmem::p2p {

class Board {
 public:
  static constexpr std::size_t kPayloadBytes = 256;

  Board() = default;
  virtual ~Board() = default;
  Board(const Board&) = delete;

  /// Shape: `bytes` (at most kPayloadBytes) from every PE, size*bytes into `recv`.
  /// Errors: GSHMEMX_ERROR_TIMEOUT naming the first PE that is missing after `timeout_seconds`
  /// (0 = wait for ever), GSHMEMX_ERROR_PEER_FAILED. Threads: one at a time per PE.
  virtual void allgather(const void* send, void* recv, std::size_t bytes,
                         double timeout_seconds) = 0;
  void barrier(double timeout_seconds) { allgather(nullptr, nullptr, 0, timeout_seconds); }
};

/// Collective; of a job on one host. `stopped()` is asked while waiting; true ends the wait with
/// GSHMEMX_ERROR_PEER_FAILED.
[[nodiscard]] std::unique_ptr<Board> make_shared_board(PeerSockets& sockets,
                                                       std::function<bool()> stopped);

}  // namespace gshmem::p2p

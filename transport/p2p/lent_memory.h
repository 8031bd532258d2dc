// Memory of the program that PEs map beside their heaps (gshmemx_buffer_register_symmetric): what
// one PE passes to the others of its host. Included by the windows. Invariant: a descriptor keeps
// its memory until it is mapped, and a mapping until it is gone, whatever the program does.
#pragma once

#include "host/base/fd.h"
#include "host/control/local_peers.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gshmem::p2p {

/// Pieces that follow each other, the whole of what the program has lent.
struct LentMemory {
  struct Piece {
    Fd fd;
    std::uint64_t offset = 0;  ///< in the file; 0 in memory of a GPU
    std::uint64_t bytes = 0;
  };
  std::vector<Piece> pieces;
};

/// Memory of the host at `p`, both in whole pages, that this process has mapped shared and writable
/// and holds descriptors of. Errors: GSHMEMX_ERROR_NOT_SUPPORTED, of other memory, in words that
/// go on after "argument buf_ptr = 0x... ".
[[nodiscard]] LentMemory lend_host_memory(const void* p, std::size_t bytes);

/// Collective over the host: what every PE lends, by its index there. The pieces of two PEs may
/// differ. Errors: those of LocalPeers::exchange.
[[nodiscard]] std::vector<LentMemory> exchange_lent(control::LocalPeers& local,
                                                    const LentMemory& mine);

}  // namespace gshmem::p2p

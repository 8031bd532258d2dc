// Memory of the program that PEs map in addition to their heaps
// (gshmemx_buffer_register_symmetric): the descriptors that a PE passes to the others of its host.
// Included by the windows. Invariant: a descriptor keeps its memory until it is mapped, and a
// mapping until it is unmapped, whatever the program does.
#pragma once

#include "host/base/fd.h"
#include "host/control/local_peers.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gshmem::p2p {

/// The chunks of memory that the program has registered, one after another.
struct LentMemory {
  struct Piece {
    Fd fd;
    std::uint64_t offset = 0;  ///< offset in the file; 0 for GPU memory
    std::uint64_t bytes = 0;
  };
  std::vector<Piece> pieces;
};

/// Finds descriptors for host memory at `p`, in whole pages, which this process has mapped shared
/// and writable and whose descriptors it holds. Errors: GSHMEMX_ERROR_NOT_SUPPORTED for other
/// memory, with a text that continues "argument buf_ptr = 0x... ".
[[nodiscard]] LentMemory lend_host_memory(const void* p, std::size_t bytes);

/// Collective over the host: returns the memory that every PE lends, by its index on the host. PEs
/// may have different chunks. Errors: those of LocalPeers::exchange.
[[nodiscard]] std::vector<LentMemory> exchange_lent(control::LocalPeers& local,
                                                    const LentMemory& mine);

}  // namespace gshmem::p2p

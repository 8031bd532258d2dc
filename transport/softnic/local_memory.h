// The pieces of this process's memory that a work queue entry names, taken as one stretch of bytes.
#pragma once

#include "transport/nic/decode.h"
#include "transport/softnic/regions.h"

#include <cstdint>
#include <span>

namespace gshmem::soft {

/// Pieces, and the protection domain of the queue that names them.
struct LocalMemory {
  const RegionTable& regions;
  std::uint32_t pd;
  std::span<const nic::LocalPiece> pieces;

  /// Stores bytes from `offset` on. False: a piece may not be written, or cannot be reached.
  [[nodiscard]] bool scatter(std::uint64_t offset, const std::uint8_t* from,
                             std::uint64_t bytes) const;
  /// Makes earlier stores visible to others. False: they were lost.
  [[nodiscard]] bool settle() const;
  /// Whether each may be written.
  [[nodiscard]] bool writable() const;

 private:
  [[nodiscard]] const Region* region_of(const nic::LocalPiece& piece) const;
};

}  // namespace gshmem::soft

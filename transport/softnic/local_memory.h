// The pieces of this process's memory that a work queue entry names, as one contiguous range of
// bytes.
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

  /// Stores bytes from `offset` on. Returns false if a piece may not be written, or cannot be
  /// accessed.
  [[nodiscard]] bool scatter(std::uint64_t offset, const std::uint8_t* from,
                             std::uint64_t bytes) const;
  /// Makes earlier stores visible. Returns false if they were lost.
  [[nodiscard]] bool settle() const;
  /// May all pieces be written?
  [[nodiscard]] bool writable() const;

 private:
  [[nodiscard]] const Region* region_of(const nic::LocalPiece& piece) const;
};

}  // namespace gshmem::soft

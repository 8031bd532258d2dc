#include "transport/softnic/local_memory.h"

#include "transport/softnic/engine.h"

#include <algorithm>

namespace gshmem::soft {

const Region* LocalMemory::region_of(const nic::LocalPiece& piece) const {
  const char* why = "";
  return regions.check(piece.key, pd, kLocalWrite, piece.address, piece.bytes, &why);
}

bool LocalMemory::scatter(std::uint64_t offset, const std::uint8_t* from,
                          std::uint64_t bytes) const {
  std::uint64_t begin = 0;
  for (const nic::LocalPiece& piece : pieces) {
    const std::uint64_t end = begin + piece.bytes;
    if (bytes > 0 && offset < end) {
      const std::uint64_t part = std::min(bytes, end - offset);
      const Region* region = region_of(piece);
      if (region == nullptr) return false;
      if (!region->memory->write(region->at(piece.address) + (offset - begin), from, part)) {
        return false;
      }
      from += part, offset += part, bytes -= part;
    }
    begin = end;
  }
  return true;
}

bool LocalMemory::settle() const {
  return std::ranges::all_of(pieces, [&](const nic::LocalPiece& piece) {
    const Region* region = region_of(piece);
    return region != nullptr && region->memory->flush();
  });
}

bool LocalMemory::writable() const {
  return std::ranges::all_of(
      pieces, [&](const nic::LocalPiece& piece) { return region_of(piece) != nullptr; });
}

}  // namespace gshmem::soft

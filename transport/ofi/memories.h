// Registered memory of the program outside of the heaps, by offsets from the heap's first byte: the
// keys of this PE's rails for it, and those of other PEs unless it is local. Included by the
// engines and work queues. Invariant: only the executor's thread uses it.
#pragma once

#include "transport/ofi/ofi_rails.h"

#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace gshmem::ofi {

/// The description of its memory that a PE sends to the others.
struct RemoteMemory {
  std::uint32_t key = 0;   ///< the key that WQEs use
  std::uint64_t base = 0;  ///< the address that providers use, for RMA
  std::array<std::uint64_t, kMaxRails> keys{};
};

struct Memory {
  std::uint64_t begin = 0, bytes = 0;
  bool local = false;               ///< other PEs may not access it
  std::uint32_t key = 0;            ///< the key that WQEs use for this PE's memory
  RailMemory here;                  ///< the memory, registered with the rails
  std::vector<RemoteMemory> there;  ///< by PE; empty before all PEs have sent theirs
};

class Memories {
 public:
  /// Returns the memory that contains [offset, offset + bytes); null if there is none.
  [[nodiscard]] const Memory* find(std::uint64_t offset, std::uint64_t bytes) const {
    auto found = all_.upper_bound(offset);
    if (found == all_.begin()) return nullptr;
    const Memory& memory = std::prev(found)->second;
    const std::uint64_t at = offset - memory.begin;
    return at < memory.bytes && bytes <= memory.bytes - at ? &memory : nullptr;
  }
  [[nodiscard]] Memory& at(std::uint64_t begin) { return all_.at(begin); }
  void add(Memory memory) { all_.insert_or_assign(memory.begin, std::move(memory)); }
  void remove(std::uint64_t begin) { all_.erase(begin); }

 private:
  std::map<std::uint64_t, Memory> all_;  ///< indexed by first offset
};

}  // namespace gshmem::ofi

// The other side of the double of libgdrapi (gdr_double.cpp), for tests: what it shall do and what
// it saw. Its GPU memory is CPU memory, of which a mapping is a second view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gshmem::test {

struct GdrDouble {
  // Rules; each call that fails by one returns this errno.
  bool no_driver = false;  ///< gdr_open returns null
  int pin_error = 0, info_error = 0, map_error = 0, copy_error = 0, unmap_error = 0;
  std::uint64_t page = 64 * 1024;  ///< pinning rounds to it
  std::uint64_t pins_less = 0;     ///< bytes that are not in what gdr_get_info_v2 tells
  std::uint64_t pins_later = 0;    ///< and the first ones of it

  // Records.
  int sessions = 0, pins = 0, mappings = 0;  ///< that are open now
  int opened = 0, pinned = 0, mapped = 0;    ///< ever
  int copies_to = 0, copies_from = 0;
  std::uint8_t* view = nullptr;         ///< of the newest mapping
  std::vector<std::string> violations;  ///< of the contract, in words
};

/// Exported by the double. The record; `reset` forgets rules and records, not memory.
using GdrDoubleRecord = GdrDouble*();
using GdrDoubleReset = void();
/// "GPU" memory at a multiple of 2 MiB, zeroed; the double knows it while it is loaded.
using GdrDoubleAllocate = void*(std::size_t bytes);

}  // namespace gshmem::test

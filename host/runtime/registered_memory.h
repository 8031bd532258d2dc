// The account of memory that the program has registered as symmetric: where it is in the symmetric
// address range, and the rows by which device code and checks know it. Included by Pe. Touches no
// memory but the rows. Invariant: PEs register and unregister alike, so the offsets of all PEs are
// the same; the buffers are each PE's own.
#pragma once

#include <gshmem/abi/state.h>

#include "host/runtime/heap/allocator.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace gshmem {

class RegisteredMemory {
 public:
  /// Offsets from the heap's first byte.
  struct Place {
    std::uint64_t begin, bytes, granularity;
  };
  /// `rows`: kMaxRegistered, zeroed; they outlive this object.
  RegisteredMemory(const Place& place, abi::RegisteredRange* rows);

  // Errors, with the call's name: GSHMEMX_ERROR_INVALID_VALUE.
  /// `buffer` has no bytes in common with one that is registered.
  void require_new(const char* call, const void* buffer, std::size_t bytes) const;
  /// The offset of what was registered with `bytes` bytes and is at `offset` now.
  void require_known(const char* call, const void* symmetric, std::uint64_t offset,
                     std::size_t bytes) const;

  /// Offset for `bytes` bytes: `wish` where that is free, aligned and in the range, else the best
  /// other one. Errors: GSHMEMX_ERROR_OUT_OF_MEMORY, also when all rows are in use.
  [[nodiscard]] std::uint64_t reserve(const char* call, std::size_t bytes,
                                      std::optional<std::uint64_t> wish);
  /// Device code finds it from now on, with the keys that are in `keys`.
  void publish(std::uint64_t offset, const void* buffer, std::size_t bytes,
               const abi::RegisteredRange& keys);
  /// What reserve gave; device code finds it no more.
  void release(std::uint64_t offset);

 private:
  struct Buffer {
    std::uintptr_t begin = 0;
    std::uint64_t bytes = 0;
    abi::RegisteredRange* row = nullptr;
  };
  const Place place_;
  abi::RegisteredRange* const rows_;
  OffsetAllocator allocator_;
  std::map<std::uint64_t, Buffer> buffers_;  ///< by offset
};

}  // namespace gshmem

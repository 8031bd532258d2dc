// The list of the symmetric memory beyond the heaps' first parts: registered memory of the program,
// and the parts by which heaps have grown. It has their offsets in the symmetric address range, and
// the rows by which device code and checks find them. Included by Pe. Accesses no memory but the
// rows. Invariant: PEs register, unregister and grow alike, so the offsets of all PEs are the same;
// each PE has its own buffers.
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
  /// Offsets are relative to the heap's first byte.
  struct Place {
    std::uint64_t begin, bytes, granularity;
  };
  /// `rows` has kMaxRegistered rows, zeroed; they outlive this object.
  RegisteredMemory(const Place& place, abi::RegisteredRange* rows);

  // Errors: GSHMEMX_ERROR_INVALID_VALUE, with the call's name.
  /// `buffer` must not overlap one that is registered.
  void require_new(const char* call, const void* buffer, std::size_t bytes) const;
  /// Memory of `bytes` bytes must be registered at `offset`.
  void require_known(const char* call, const void* symmetric, std::uint64_t offset,
                     std::size_t bytes) const;

  /// Returns an offset for `bytes` bytes: `wish` if that is free, aligned and in the range,
  /// otherwise the best other one. Errors: GSHMEMX_ERROR_OUT_OF_MEMORY, also when all rows are in
  /// use.
  [[nodiscard]] std::uint64_t reserve(const char* call, std::size_t bytes,
                                      std::optional<std::uint64_t> wish);
  /// Returns an offset for a part of the heap, whose alignment is a power of two. Errors:
  /// GSHMEMX_ERROR_OUT_OF_MEMORY, in the same cases.
  [[nodiscard]] std::uint64_t reserve_part(std::uint64_t bytes, std::uint64_t alignment);
  /// Device code finds the memory from now on, with the keys that are in `keys`. `buffer` is null
  /// for a part of the heap, which is never registered.
  void publish(std::uint64_t offset, const void* buffer, std::size_t bytes,
               const abi::RegisteredRange& keys);
  /// Releases an offset of reserve; device code no longer finds the memory.
  void release(std::uint64_t offset);

 private:
  struct Buffer {
    std::uintptr_t begin = 0;  ///< 0: it is a part of the heap
    std::uint64_t bytes = 0;
    abi::RegisteredRange* row = nullptr;
  };
  const Place place_;
  abi::RegisteredRange* const rows_;
  OffsetAllocator allocator_;
  std::map<std::uint64_t, Buffer> buffers_;  ///< indexed by offset
};

}  // namespace gshmem

// The symmetric memory of a PE as programs see it: collective calls around offset allocators. One
// allocator is for the memory that exists from the start, and one for each part by which the heap
// has grown. An allocation is in one part, so that one key of a NIC covers it. Parts stay until
// finalize. Included by Pe. Invariant: PEs make the same calls in the same order, and they grow
// together. Every call compares the calls before it changes anything. So the allocators of all PEs
// have the same contents.
#pragma once

#include "host/base/collectives.h"
#include "host/runtime/gpu/gpu.h"
#include "host/runtime/heap/allocator.h"
#include "host/runtime/same_call.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

namespace gshmem {

class SymmetricHeap {
 public:
  struct Memory {
    char* heap;               ///< address of the runtime's own bytes, which come first
    std::uint64_t bytes;      ///< size, including the runtime's own bytes
    std::uint64_t alignment;  ///< alignment of `heap`
    Gpu* gpu;                 ///< the GPU of the memory; null: it is host memory
  };
  /// How the heap grows; the numbers are the same on all PEs.
  struct Growth {
    std::uint64_t limit = 0;  ///< limit on the allocatable bytes
    std::uint64_t step = 1;   ///< minimum number of bytes by which the heap grows
    std::uint64_t granularity = 1;
    /// End of the error message that the limit is too low.
    std::string advice = "; raise GSHMEM_SYMMETRIC_SIZE";
    /// Collective: adds memory to the heaps of all PEs, or of none. Returns its offset from the
    /// heap's first byte, a multiple of the alignment. Errors: those on which all PEs agree are
    /// PhaseError, which names the PE.
    std::function<std::uint64_t(std::uint64_t bytes, std::uint64_t alignment)> add = {};
  };
  /// `require_running` throws if this PE may not synchronize with others. `ranks` and the objects
  /// that `memory` names outlive this object.
  SymmetricHeap(const Memory& memory, const Growth& growth, Collectives& ranks,
                std::function<void()> require_running);

  // Collective. Returns null when the heap is full and does not grow. gshmem_calloc sets `zero`,
  // and `bytes` is the product of its arguments. Errors: GSHMEMX_ERROR_SYMMETRY when PEs disagree,
  // GSHMEMX_ERROR_INVALID_VALUE.
  [[nodiscard]] void* allocate(const char* call, std::size_t bytes, std::size_t alignment,
                               bool zero);
  [[nodiscard]] void* reallocate(const char* call, void* ptr, std::size_t bytes);
  void free(const char* call, void* ptr);
  /// Begins another collective call with an argument that must be the same on all PEs. Until the
  /// result is destroyed no other thread of this PE is in such a call.
  [[nodiscard]] std::unique_lock<std::mutex> enter(const char* call,
                                                   const SharedArgument& argument);

  /// Returns the bytes of all parts.
  [[nodiscard]] std::uint64_t capacity() const;

  /// Returns an empty text if [p, p + bytes) belongs to one allocation, or begins outside the heap.
  /// Otherwise returns the error. Threads: any, also while other threads are in collective calls.
  [[nodiscard]] std::string complaint(const void* p, std::uint64_t bytes) const;

 private:
  struct Part {
    std::uint64_t begin;  ///< offset from the heap's first byte
    OffsetAllocator blocks;
  };
  /// A position in a part.
  struct Place {
    std::size_t part;
    std::uint64_t offset;
  };
  void agree(const char* call, std::initializer_list<SharedArgument> arguments);
  [[nodiscard]] void* allocate_agreed(const char* call, std::size_t bytes, std::size_t alignment,
                                      bool zero);
  [[nodiscard]] std::uint64_t size_of(const char* call, const void* ptr, const Place& place) const;
  [[nodiscard]] void* room_for(const char* call, std::size_t bytes, std::size_t alignment);
  [[nodiscard]] void* room_in_parts(std::size_t bytes, std::size_t alignment);
  [[nodiscard]] std::uint64_t wanted_for(std::uint64_t needed) const;
  [[nodiscard]] std::string grow(std::uint64_t bytes, std::uint64_t alignment);
  [[nodiscard]] std::optional<std::string> add_part(std::uint64_t bytes, std::uint64_t alignment);
  [[nodiscard]] std::string fullness(std::size_t bytes, std::size_t alignment) const;
  [[nodiscard]] std::optional<Place> find(const void* ptr) const;
  [[nodiscard]] Place place_of(const char* call, const void* ptr) const;
  [[nodiscard]] char* at(const Place& place) const;
  /// Returns an offset from the first allocatable byte.
  [[nodiscard]] std::uint64_t offset_of(const Place& place) const;
  [[nodiscard]] SharedArgument ptr_at(const Place& place) const;
  void copy(void* dst, const void* src, std::size_t bytes);
  void zero(void* dst, std::size_t bytes);

  const Memory memory_;
  Collectives& ranks_;
  const std::function<void()> require_running_;
  Growth growth_;
  std::vector<Part> parts_;                 ///< in the order in which they were added
  std::mutex mutex_;                        ///< one collective call at a time
  mutable std::shared_mutex blocks_mutex_;  ///< guards the blocks against such a call
};

}  // namespace gshmem

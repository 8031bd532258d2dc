// The symmetric memory of a PE as programs see it: collective calls around the offset allocator.
// Included by Pe. Invariant: PEs make the same calls in the same order, which every call compares
// before it changes anything. So the allocators of all PEs hold the same.
#pragma once

#include "host/base/collectives.h"
#include "host/runtime/gpu/gpu.h"
#include "host/runtime/heap/allocator.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <string>

namespace gshmem {

class SymmetricHeap {
 public:
  struct Memory {
    char* heap;               ///< address of the runtime's own bytes, which come first
    std::uint64_t bytes;      ///< size, including those
    std::uint64_t alignment;  ///< alignment of `heap`
    Gpu* gpu;                 ///< the GPU of the memory; null: it is host memory
  };
  /// `require_running` throws if this PE may not synchronize with others. `ranks` and the objects
  /// that `memory` names outlive this object.
  SymmetricHeap(const Memory& memory, Collectives& ranks, std::function<void()> require_running);

  // Collective. Returns null when the heap is full. Errors: GSHMEMX_ERROR_SYMMETRY when PEs
  // disagree, GSHMEMX_ERROR_INVALID_VALUE.
  [[nodiscard]] void* allocate(const char* call, std::size_t bytes, std::size_t alignment,
                               bool zero);
  [[nodiscard]] void* reallocate(const char* call, void* ptr, std::size_t bytes);
  void free(const char* call, void* ptr);
  /// Begins another collective call with an argument that must be the same on all PEs. Until the
  /// result is destroyed no other thread of this PE is in such a call.
  [[nodiscard]] std::unique_lock<std::mutex> enter(const char* call, std::uint64_t argument);

  [[nodiscard]] std::uint64_t capacity() const { return allocator_.capacity(); }

  /// Empty where [p, p + bytes), which is in the heap, belongs to one allocation; else what is
  /// wrong with it. Threads: any, also while others are in collective calls.
  [[nodiscard]] std::string complaint(const void* p, std::uint64_t bytes) const;

 private:
  void agree(const char* call, std::uint64_t size, std::uint64_t alignment);
  [[nodiscard]] std::uint64_t size_of(const char* call, const void* ptr,
                                      std::uint64_t offset) const;
  [[nodiscard]] void* room_for(const char* call, std::size_t bytes, std::size_t alignment);
  [[nodiscard]] std::uint64_t offset_of(const char* call, const void* ptr) const;
  [[nodiscard]] char* at(std::uint64_t offset) const;
  void copy(void* dst, const void* src, std::size_t bytes);
  void zero(void* dst, std::size_t bytes);

  const Memory memory_;
  Collectives& ranks_;
  const std::function<void()> require_running_;
  OffsetAllocator allocator_;
  std::mutex mutex_;                        ///< one collective call at a time
  mutable std::shared_mutex blocks_mutex_;  ///< of changes by such a call, and of complaint()
};

}  // namespace gshmem

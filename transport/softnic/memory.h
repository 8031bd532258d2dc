// How the engine accesses memory of its process: by the CPU, or by the CUDA driver. There is one
// MemoryAccess per kind and device; regions.h says which one a region uses. Only the engine's
// thread calls it. Invariant: after registration, no call allocates or synchronizes with kernels.
#pragma once

#include "transport/nic/decode.h"

#include <cstddef>
#include <cstdint>

namespace gshmem::soft {

class MemoryAccess {
 public:
  virtual ~MemoryAccess() = default;
  MemoryAccess() = default;
  MemoryAccess(const MemoryAccess&) = delete;

  // These calls return false if the memory could not be accessed.
  /// Stores `bytes`. They are visible after the next flush() at the latest.
  [[nodiscard]] virtual bool write(void* to, const void* from, std::size_t bytes) = 0;
  /// One of several transfers from the memory.
  struct Part {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  /// Reads the parts, and sees all earlier writes. If batched(), all parts cost little more than
  /// one.
  [[nodiscard]] virtual bool read(const Part* parts, std::size_t count) = 0;
  [[nodiscard]] bool read(void* to, const void* from, std::size_t bytes) {
    const Part part{to, from, bytes};
    return read(&part, 1);
  }
  /// Executes the atomic on a naturally aligned word of wqe.length bytes.
  [[nodiscard]] virtual bool atomic(void* word, const nic::Wqe& wqe, std::uint64_t* old) = 0;
  [[nodiscard]] virtual bool flush() = 0;
  /// Does each call cost microseconds? Then the caller should move much data at a time.
  [[nodiscard]] virtual bool batched() const = 0;
};

/// Returns how often writes that had been accepted were lost, by any access of this process. Data
/// that was written before the last loss must not be reported as arrived.
[[nodiscard]] std::uint64_t lost_writes();
void count_lost_writes();

/// Returns the access to memory of the CPU. Aligned words of a small transfer are stored and loaded
/// without tearing, with release and acquire, because clients poll them. Its atomics are atomic to
/// those of the CPU.
[[nodiscard]] MemoryAccess& host_memory();

/// Returns the access to the GPU memory to which `address` points. Null when it is not GPU memory,
/// or there is no GPU. The call creates everything that the transfers need.
[[nodiscard]] MemoryAccess* gpu_memory(const void* address);

}  // namespace gshmem::soft

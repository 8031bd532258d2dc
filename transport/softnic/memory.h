// How the engine touches memory of its process: by the CPU, or through the CUDA driver. One
// MemoryAccess per kind and device; regions.h says which one a region has. Only the engine's thread
// calls it. Invariant: nothing that runs after registration allocates or synchronises with kernels.
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

  // False: the memory could not be reached.
  /// Stores `bytes`. Others see them after the next flush() at the latest.
  [[nodiscard]] virtual bool write(void* to, const void* from, std::size_t bytes) = 0;
  /// One of several transfers from the memory.
  struct Part {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  /// Sees all earlier writes. Where it is batched() all parts cost little more than one.
  [[nodiscard]] virtual bool read(const Part* parts, std::size_t count) = 0;
  [[nodiscard]] bool read(void* to, const void* from, std::size_t bytes) {
    const Part part{to, from, bytes};
    return read(&part, 1);
  }
  /// Performs the atomic on a naturally aligned word of wqe.length bytes.
  [[nodiscard]] virtual bool atomic(void* word, const nic::Wqe& wqe, std::uint64_t* old) = 0;
  [[nodiscard]] virtual bool flush() = 0;
  /// Each call costs microseconds: move much at a time.
  [[nodiscard]] virtual bool batched() const = 0;
};

/// How often writes that had been taken were lost, by any access of this process. Nothing that was
/// written before the last time may be said to have arrived.
[[nodiscard]] std::uint64_t lost_writes();
void count_lost_writes();

/// Memory that the CPU reaches. Aligned words of a small transfer are stored and loaded whole and
/// with release and acquire, because clients poll them; atomics are atomic to those of the CPU.
[[nodiscard]] MemoryAccess& host_memory();

/// Access to the GPU memory that `address` points to, or null when it is not GPU memory (or there
/// is no GPU). Everything the transfers need is made here.
[[nodiscard]] MemoryAccess* gpu_memory(const void* address);

}  // namespace gshmem::soft

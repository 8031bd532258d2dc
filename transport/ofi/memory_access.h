// Lets the executor's thread read and modify its PE's heap: host memory by CPU instructions, GPU
// memory by the copy engine and, if there is a CPU mapping, by that (mapped_access.h). Used for
// active messages, and for the results of atomics.
#pragma once

#include "transport/nic/decode.h"
#include "transport/nic/nic.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace gshmem::ofi {

/// Returns the address at an offset from `base`, which counts modulo 2^64: local memory may be
/// before the heap.
[[nodiscard]] inline std::uint8_t* address_at(const void* base, std::uint64_t offset) {
  return reinterpret_cast<std::uint8_t*>(reinterpret_cast<std::uintptr_t>(base) + offset);
}

/// A copy that may still be running. Call done() for each until it returns true, after a poll().
using Ticket = std::int64_t;
inline constexpr Ticket kNoTicket = -1;  ///< its copy is done

/// Memory that copies read or write; it is freed with the object that allocated it.
using Staging = std::shared_ptr<std::uint8_t>;

/// Are `bytes` bytes at `offset` inside memory of `size` bytes? Their sum may overflow.
[[nodiscard]] inline bool in_range(std::uint64_t offset, std::uint64_t bytes, std::uint64_t size) {
  return bytes <= size && offset <= size - bytes;
}

class MemoryAccess {
 public:
  virtual ~MemoryAccess() = default;
  /// Called once by the thread that makes all further calls.
  virtual void attach_thread() {}
  /// Allocates host memory for the other side of copies.
  [[nodiscard]] virtual Staging allocate(std::size_t bytes) = 0;

  // Offsets are relative to the heap and in range; callers check that. The other side is Staging.
  // Errors: GSHMEMX_ERROR_CUDA, or with a mapping GSHMEMX_ERROR_SYSTEM. Copies that are not done
  // are not ordered.
  [[nodiscard]] virtual Ticket start_write(std::uint64_t offset, const void* from,
                                           std::size_t bytes) = 0;
  [[nodiscard]] virtual Ticket start_read(std::uint64_t offset, void* to, std::size_t bytes) = 0;
  /// Updates the state of copies. Copies started before may be executed together.
  virtual void poll() {}
  /// Returns the state at the last poll().
  [[nodiscard]] virtual bool done(Ticket ticket) = 0;
  /// Executes an atomic on a word of wqe.length bytes. When it is done, the result is in memory,
  /// and `old`, unless null, has the old value. All atomics of this object are atomic to each
  /// other, and those on one word take effect in the order of the calls.
  [[nodiscard]] virtual Ticket start_atomic(std::uint64_t offset, const nic::Wqe& wqe,
                                            std::uint64_t* old) = 0;
  /// Are the atomics atomic to those of CPU and GPU?
  [[nodiscard]] virtual bool coherent() const = 0;
};

/// Is the old value of the atomic unused? Then the WQE stores it in the sink of the heap.
[[nodiscard]] bool is_unwanted(const nic::Wqe& wqe);
/// Stores the old value of an atomic where its WQE wants it, in the format of an mlx5 NIC: 8 bytes
/// in host order, 4 bytes big-endian (PRM, "atomic_host_endian_min_size"). `staging` has 8 bytes,
/// which are in use until the copy is done.
[[nodiscard]] Ticket start_result(MemoryAccess& heap, const nic::Wqe& wqe, std::uint64_t old,
                                  std::uint8_t* staging);

[[nodiscard]] std::unique_ptr<MemoryAccess> make_memory_access(const nic::Region& heap);
/// Implemented in memory_access_cuda.cpp; throws in builds without CUDA.
[[nodiscard]] std::unique_ptr<MemoryAccess> make_gpu_access(const nic::Region& heap);

}  // namespace gshmem::ofi

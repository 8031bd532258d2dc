// A PE's own heap as the executor's thread reads and changes it: host memory by CPU instructions,
// GPU memory with the copy engine and, where there is a mapping of it, by that (mapped_access.h).
// For active messages, and for the results of atomics.
#pragma once

#include "transport/nic/decode.h"
#include "transport/nic/nic.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace gshmem::ofi {

/// A copy that may still be running. Ask done() about each until it says so, after a poll().
using Ticket = std::int64_t;
inline constexpr Ticket kNoTicket = -1;  ///< is done

/// Memory that copies start from or end in; freed with the object that made it.
using Staging = std::shared_ptr<std::uint8_t>;

/// Whether `bytes` bytes at `offset` lie in memory of `size` bytes. Their sum may wrap.
[[nodiscard]] inline bool in_range(std::uint64_t offset, std::uint64_t bytes, std::uint64_t size) {
  return bytes <= size && offset <= size - bytes;
}

class MemoryAccess {
 public:
  virtual ~MemoryAccess() = default;
  /// Called once by the thread that makes all further calls.
  virtual void attach_thread() {}
  /// Host memory for the other side of copies.
  [[nodiscard]] virtual Staging allocate(std::size_t bytes) = 0;

  // Offsets are from the heap's begin and in range: callers check. The other side is Staging.
  // Errors: GSHMEMX_ERROR_CUDA, with a mapping GSHMEMX_ERROR_SYSTEM. Copies that are not done have
  // no order.
  [[nodiscard]] virtual Ticket start_write(std::uint64_t offset, const void* from,
                                           std::size_t bytes) = 0;
  [[nodiscard]] virtual Ticket start_read(std::uint64_t offset, void* to, std::size_t bytes) = 0;
  /// Looks how far copies have come; what has been started until then may be taken together.
  virtual void poll() {}
  /// The state at the last poll().
  [[nodiscard]] virtual bool done(Ticket ticket) = 0;
  /// Carries out an atomic on a word of wqe.length bytes, which is in memory when it is done; then
  /// `old` has what was there, unless it is null. All of this object are atomic to each other, and
  /// those on one word take effect in the order of the calls.
  [[nodiscard]] virtual Ticket start_atomic(std::uint64_t offset, const nic::Wqe& wqe,
                                            std::uint64_t* old) = 0;
  /// The atomics are atomic to those of CPU and GPU.
  [[nodiscard]] virtual bool coherent() const = 0;
};

/// Nobody asks what the atomic has found: its result goes into the sink of the heap.
[[nodiscard]] bool is_unwanted(const nic::Wqe& wqe);
/// Stores what an atomic found where its WQE wants it. As an mlx5 NIC does it: 8 bytes in host
/// order, 4 bytes big-endian (PRM, "atomic_host_endian_min_size"). `staging`: 8 bytes of Staging,
/// in use until it is done.
[[nodiscard]] Ticket start_result(MemoryAccess& heap, const nic::Wqe& wqe, std::uint64_t old,
                                  std::uint8_t* staging);

[[nodiscard]] std::unique_ptr<MemoryAccess> make_memory_access(const nic::Region& heap);
/// memory_access_cuda.cpp, or a refusal in builds without CUDA.
[[nodiscard]] std::unique_ptr<MemoryAccess> make_gpu_access(const nic::Region& heap);

}  // namespace gshmem::ofi

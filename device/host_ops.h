// Host threads use this when heaps are on GPUs: the operations of device code, by the copy
// engine and a service kernel. Implemented in host/gpu/host_ops.cpp; null in CPU mode, where host
// threads run the device code itself.
#pragma once

#include <gshmem/abi/state.h>

#include <cstddef>
#include <cstdint>

namespace gshmem::device {

enum class AmoOp : std::uint32_t { kFetch, kSet, kSwap, kCompareSwap, kAdd, kAnd, kOr, kXor };

/// Symmetric addresses are those of this PE, in range. Failures are recorded as faults, not thrown.
class HostOps {
 public:
  /// Start a copy to or from PE `pe`; `source` and `dest` may be host or GPU memory. Ordered after
  /// earlier operations of this object.
  virtual void put(void* dest, const void* source, std::size_t bytes, int pe) = 0;
  virtual void get(void* dest, const void* source, std::size_t bytes, int pe) = 0;
  /// Start a copy between any two places of this process.
  virtual void copy(void* dst, const void* src, std::size_t bytes) = 0;
  /// Everything started is complete at its target.
  virtual void complete() = 0;
  /// As complete(), with its outcome: 0, or the code of the PE's first fault.
  virtual int complete_status() = 0;
  /// As complete(), also for posts of kernels to the queues of `context`, a state of this PE.
  virtual void complete(const abi::DeviceState& context) = 0;
  /// Value of an aligned word of `width` bytes (1 to 8) of this PE, zero-extended.
  virtual std::uint64_t load(const void* address, std::size_t width) = 0;
  /// Returns the old value.
  virtual std::uint64_t amo(AmoOp op, void* target, std::uint64_t operand, std::uint64_t cond,
                            std::size_t width, int pe) = 0;
  /// Completes everything, then waits for all PEs.
  virtual void barrier(const char* call) = 0;
  /// As barrier, for the members of `team`. 0, or a status.
  virtual int sync(const char* call, int team) = 0;

 protected:
  ~HostOps() = default;
};

}  // namespace gshmem::device

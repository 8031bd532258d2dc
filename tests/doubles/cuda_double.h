// The other side of a libcuda.so.1 that has memory and streams but no GPU (cuda_double.cpp), for
// tests of what moves GPU memory by the copy engine: what it shall cost, what it saw, and the way
// to its memory. GPU memory cannot be touched through its own address: who tries gets SIGSEGV.
// Copies run when the stream is asked or waited for, not before, so that memory that is used again
// too early shows.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace gshmem::test {

struct CudaDouble {
  // Rules. A copy ends latency_ns after its call at the earliest, and moves bytes_per_ns behind the
  // copies before it on its stream.
  std::atomic<std::int64_t> latency_ns{0};
  std::atomic<std::int64_t> bytes_per_ns{0};                  ///< 0: bytes take no time
  std::atomic<int> failing_to_host{0}, failing_to_device{0};  ///< so many copies are refused
  std::atomic<bool> holding_to_device{false};  ///< no copy to the GPU ends: its engine is busy
  std::atomic<bool> capturing{false};          ///< another thread captures a graph in global mode
  std::atomic<int> refused_queries{0};         ///< so many end with an error of captures
  std::atomic<bool> no_pcie_mapping{false};    ///< dmabufs are mapped by the CPU's path only
  std::atomic<bool> gone{false};               ///< the contexts, as after cudaDeviceReset
  std::atomic<bool> crowded{false};            ///< no context can be made
  std::atomic<bool> failed{false};             ///< a kernel has failed: CUDA_ERROR_ILLEGAL_ADDRESS
  std::atomic<bool> holding_collectives{false};  ///< no kernel of one ends: it waits for other PEs
  std::atomic<bool> held{false};  ///< a call of the application waits: nothing enters its contexts

  // Records.
  std::atomic<std::uint64_t> to_host{0}, to_device{0};  ///< copies
  std::atomic<std::uint64_t> waits{0};                  ///< cuStreamSynchronize with work to do
  std::atomic<std::uint64_t> queries{0};                ///< cuStreamQuery
  std::atomic<std::uint64_t> by_time_slice{0};          ///< of copies with an aligned word
  std::atomic<int> made{0};                             ///< contexts of the library's, now
  std::atomic<int> streams{0};                          ///< of the library's, now
  std::atomic<int> held_collectives{0};                 ///< threads that wait for one, now
  std::atomic<std::uint64_t> contexts{0};               ///< cuCtxPushCurrent
  std::atomic<std::uint64_t> synchronous_ranges{0};     ///< CU_POINTER_ATTRIBUTE_SYNC_MEMOPS set
  std::atomic<std::uint64_t> plain_dmabufs{0}, pcie_dmabufs{0};
  std::atomic<std::uint64_t> misaligned{
      0};  ///< copies of 4 KiB and more from or to odd host memory
  std::mutex mutex;
  std::vector<std::string> violations;  ///< of the driver's contract, in words

  void reset() {
    latency_ns = bytes_per_ns = 0;
    failing_to_host = failing_to_device = 0;
    holding_to_device = capturing = gone = crowded = held = no_pcie_mapping = failed = false;
    holding_collectives = false;
    plain_dmabufs = pcie_dmabufs = 0;
    refused_queries = 0;
    synchronous_ranges = 0;
    to_host = to_device = waits = queries = contexts = misaligned = by_time_slice = 0;
    const std::lock_guard lock(mutex);
    violations.clear();
  }
};

/// Streams of an application's on a device, which is being captured or not: handles to be handed
/// back to the double. Nobody may wait for them.
inline constexpr std::uintptr_t kCudaDoubleStreams = 0x1000;
inline void* cuda_double_stream(int device, bool captured = false) {
  return reinterpret_cast<void*>(kCudaDoubleStreams + static_cast<std::uintptr_t>(device) * 16 +
                                 (captured ? 8 : 0));
}

/// Exported by the double.
using CudaDoubleRecord = CudaDouble*();
/// The device whose primary context is current on the calling thread; from kCudaDoubleOwn on those
/// that an application has made; -1: none.
using CudaDoubleCurrent = int();
inline constexpr int kCudaDoubleOwn = 32;
/// Pushes and pops such a context.
using CudaDoubleEnter = void(int context);
using CudaDoubleLeave = void();
/// Flags of a device's primary context.
using CudaDoubleFlags = std::atomic<unsigned>*(int device);
/// What modules and libraries of this handle have as the state of gshmem, an abi::DeviceState.
inline constexpr std::uintptr_t kCudaDoubleCode = 0x80;
using CudaDoubleState = void*();
/// GPU memory of device 0, zeroed, kept until the process ends.
using CudaDoubleAllocate = void*(std::size_t bytes);
/// The same memory as the test may read and write it.
using CudaDoubleView = void*(void* gpu_memory);

}  // namespace gshmem::test

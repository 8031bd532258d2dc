// The interface of a libcuda.so.1 with memory and streams but no GPU (cuda_double.cpp), for tests
// of copies of GPU memory by the copy engine: the costs that a test sets, the calls that the double
// has recorded, and the view of its memory. An access to GPU memory by its own address raises
// SIGSEGV. Copies run only when the stream is queried or waited for, so that memory that is used
// again too early is detected.
#pragma once

#include <gshmem/abi/state.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace gshmem::test {

struct CudaDouble {
  // Rules. A copy ends latency_ns after its call at the earliest, and takes its time at
  // bytes_per_ns after the copies before it on its stream.
  std::atomic<std::int64_t> latency_ns{0};
  std::atomic<std::int64_t> bytes_per_ns{0};                  ///< 0: bytes take no time
  std::atomic<int> failing_to_host{0}, failing_to_device{0};  ///< the number of copies to refuse
  std::atomic<bool> holding_to_device{false};  ///< no copy to the GPU completes: its engine is busy
  std::atomic<bool> capturing{false};          ///< another thread captures a graph in global mode
  std::atomic<int> refused_queries{0};         ///< the number that fails with an error of captures
  std::atomic<bool> no_pcie_mapping{false};    ///< dmabufs have only the CPU's mapping
  std::atomic<bool> gone{false};               ///< the contexts are gone, as after cudaDeviceReset
  std::atomic<bool> crowded{false};            ///< no context can be created
  std::atomic<bool> failed{false};             ///< a kernel has failed: CUDA_ERROR_ILLEGAL_ADDRESS
  std::atomic<bool> holding_collectives{false};  ///< kernels of collectives wait for other PEs
  std::atomic<bool> held{false};                 ///< no thread enters contexts of the application

  // Records.
  std::atomic<std::uint64_t> to_host{0}, to_device{0};  ///< copies
  std::atomic<std::uint64_t> waits{0};                  ///< cuStreamSynchronize with work to do
  std::atomic<std::uint64_t> queries{0};                ///< cuStreamQuery
  std::atomic<std::uint64_t> by_time_slice{0};          ///< copies that do not keep words whole
  std::atomic<int> made{0};                             ///< contexts that the library has now
  std::atomic<int> streams{0};                          ///< streams that the library has now
  std::atomic<int> held_collectives{0};                 ///< threads that wait for a collective now
  std::atomic<std::uint64_t> contexts{0};               ///< cuCtxPushCurrent
  std::atomic<std::uint64_t> synchronous_ranges{0};     ///< CU_POINTER_ATTRIBUTE_SYNC_MEMOPS set
  std::atomic<std::uint64_t> plain_dmabufs{0}, pcie_dmabufs{0};
  std::atomic<std::uint64_t> misaligned{
      0};  ///< copies of 4 KiB and more from or to host memory that is not aligned
  std::mutex mutex;
  std::vector<std::string> violations;  ///< violations of the driver's contract

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

/// Streams of an application on a device, of which some are being captured. They are handles to
/// pass back to the double; no call may wait for them.
inline constexpr std::uintptr_t kCudaDoubleStreams = 0x1000;
inline void* cuda_double_stream(int device, bool captured = false) {
  return reinterpret_cast<void*>(kCudaDoubleStreams + static_cast<std::uintptr_t>(device) * 16 +
                                 (captured ? 8 : 0));
}

/// Exported by the double.
using CudaDoubleRecord = CudaDouble*();
/// Returns the device whose primary context is current on the calling thread; from kCudaDoubleOwn
/// on, a context that an application has made; -1: none.
using CudaDoubleCurrent = int();
inline constexpr int kCudaDoubleOwn = 32;
/// Pushes and pops such a context.
using CudaDoubleEnter = void(int context);
using CudaDoubleLeave = void();
/// Flags of a device's primary context.
using CudaDoubleFlags = std::atomic<unsigned>*(int device);
/// Modules and libraries with this handle have gshmem's state. Its symbol has `bytes` bytes, and
/// its last word is where that size puts it.
inline constexpr std::uintptr_t kCudaDoubleCode = 0x80;
struct CudaDoubleCode {
  abi::StateSymbol symbol;
  std::uint64_t beyond[4] = {};  ///< for a longer state of another version
  std::size_t bytes = sizeof(abi::StateSymbol);
};
using CudaDoubleCodeInGpu = CudaDoubleCode*();
/// Allocates zeroed GPU memory of device 0, which is kept until the process ends.
using CudaDoubleAllocate = void*(std::size_t bytes);
/// Returns the view by which the test may read and write that memory.
using CudaDoubleView = void*(void* gpu_memory);

}  // namespace gshmem::test

// The memory of a PE's heap on its GPU (CUDA driver: virtual memory management), before anybody
// maps it: what the window passes to other PEs, as a file descriptor inside a host and, where the
// machine has them, as a fabric handle between hosts. Included by cuda_window.cpp.
#pragma once

#include "host/base/cuda_driver.h"
#include "host/base/fd.h"
#include "transport/p2p/fabric_peers.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace gshmem::p2p {

// Since CUDA 12.3; by their numbers, so that the cuda.h of 12.0 will do.
inline constexpr auto kFabricHandleType = static_cast<CUmemAllocationHandleType>(8);
inline constexpr auto kFabricSupported = static_cast<CUdevice_attribute>(128);
#if CUDA_VERSION >= 12030
static_assert(kFabricHandleType == CU_MEM_HANDLE_TYPE_FABRIC &&
              kFabricSupported == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED &&
              sizeof(CUmemFabricHandle) == sizeof(FabricHandle));
#endif

/// The handle by which memory was made. Mappings and descriptors keep the memory when it goes; a
/// fabric handle is refused from then on (seen with driver 580: CUDA_ERROR_NOT_SUPPORTED).
class CudaAllocation {
 public:
  CudaAllocation() = default;
  CudaAllocation(const CudaDriver& cuda, CUmemGenericAllocationHandle handle)
      : cuda_(&cuda), handle_(handle) {}
  CudaAllocation(CudaAllocation&& other) noexcept
      : cuda_(other.cuda_), handle_(std::exchange(other.handle_, 0)) {}
  CudaAllocation& operator=(CudaAllocation&& other) noexcept {
    std::swap(cuda_, other.cuda_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CudaAllocation() {
    if (handle_ != 0) cuda_->cuMemRelease(handle_);
  }
  [[nodiscard]] CUmemGenericAllocationHandle handle() const { return handle_; }

 private:
  const CudaDriver* cuda_ = nullptr;
  CUmemGenericAllocationHandle handle_ = 0;
};

struct CudaHeap {
  CudaAllocation memory;  ///< to be kept until all PEs that may import `fabric` have done so
  Fd fd;                  ///< keeps the memory until it is mapped
  std::uint64_t bytes = 0, granularity = 0;
  std::optional<FabricHandle> fabric;
  std::string why_no_fabric;
};

/// At least `bytes` bytes on GPU `device`, whose context is current, rounded up as its driver
/// wants; with a fabric handle if `fabric` is not kOff: under kAuto without one where it cannot be
/// had. Errors: GSHMEMX_ERROR_OUT_OF_MEMORY naming the free memory; GSHMEMX_ERROR_NOT_SUPPORTED
/// under kOn, saying what is missing and what to do; GSHMEMX_ERROR_CUDA.
[[nodiscard]] CudaHeap make_cuda_heap(const CudaDriver& cuda, int device, std::uint64_t bytes,
                                      FabricUse fabric);

/// A descriptor of the memory, by which other processes map it. Errors: GSHMEMX_ERROR_CUDA.
[[nodiscard]] Fd export_descriptor(const CudaDriver& cuda, CUmemGenericAllocationHandle memory);

/// The driver's words for a result.
[[nodiscard]] std::string cuda_text(const CudaDriver& cuda, CUresult result);

}  // namespace gshmem::p2p

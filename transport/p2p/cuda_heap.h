// The memory of a PE's heap on its GPU (CUDA driver: virtual memory management), before it is
// mapped. The window passes it to other PEs as a file descriptor inside a host and, if the machine
// has them, as a fabric handle between hosts. Included by cuda_window.cpp.
#pragma once

#include "host/base/cuda_driver.h"
#include "host/base/fd.h"
#include "transport/p2p/fabric_peers.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace gshmem::p2p {

// It exists since CUDA 12.3. The number is used, so that the cuda.h of 12.0 is enough.
inline constexpr auto kFabricHandleType = static_cast<CUmemAllocationHandleType>(8);
inline constexpr auto kFabricSupported = static_cast<CUdevice_attribute>(128);
#if CUDA_VERSION >= 12030
static_assert(kFabricHandleType == CU_MEM_HANDLE_TYPE_FABRIC &&
              kFabricSupported == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED &&
              sizeof(CUmemFabricHandle) == sizeof(FabricHandle));
#endif

/// The handle of an allocation. Mappings and descriptors keep the memory after it is released; a
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
  CudaAllocation memory;  ///< kept until all PEs that may import `fabric` have done so
  Fd fd;                  ///< keeps the memory until it is mapped
  std::uint64_t bytes = 0, granularity = 0;
  std::optional<FabricHandle> fabric;
  std::string why_no_fabric;
};

/// The memory of a heap from the start, or memory by which it grows.
enum class HeapPart { kFirst, kLater };

/// Allocates at least `bytes` bytes on GPU `device`, whose context is current, rounded up to the
/// driver's granularity. It has a fabric handle if `fabric` is not kOff; with kAuto only if one can
/// be made. Errors: GSHMEMX_ERROR_OUT_OF_MEMORY, which names the free memory;
/// GSHMEMX_ERROR_NOT_SUPPORTED with kOn, which names what is missing and what to do;
/// GSHMEMX_ERROR_CUDA.
[[nodiscard]] CudaHeap make_cuda_heap(const CudaDriver& cuda, int device, std::uint64_t bytes,
                                      FabricUse fabric, HeapPart part = HeapPart::kFirst);

/// Returns a descriptor of the memory, by which other processes map it. Errors: GSHMEMX_ERROR_CUDA.
[[nodiscard]] Fd export_descriptor(const CudaDriver& cuda, CUmemGenericAllocationHandle memory);

/// Returns the driver's text for a result.
[[nodiscard]] std::string cuda_text(const CudaDriver& cuda, CUresult result);

}  // namespace gshmem::p2p

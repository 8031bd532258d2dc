// Requests the memory of a heap and its handles from the CUDA driver, through cuda.h.
#include "transport/p2p/cuda_heap.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

namespace gshmem::p2p {
namespace {

// The requirement for fabric handles (CUDA driver API, cuMemCreate). Without it the result is
// CUDA_ERROR_NOT_PERMITTED.
constexpr char kNoChannel[] = "; no IMEX channel (/dev/nvidia-caps-imex-channels)";
constexpr char kChannel[] =
    "; make /dev/nvidia-caps-imex-channels/channel0 (as root: mknod with the major number of "
    "nvidia-caps-imex-channels in /proc/devices and minor 0, or the driver's option "
    "NVreg_CreateImexChannel0=1), and start nvidia-imex for several hosts";

class HeapMaker {
 public:
  HeapMaker(const CudaDriver& cuda, int device, HeapPart part)
      : cuda_(cuda), device_(device), part_(part) {
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    properties_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    // This allows a NIC to register the heap (CUDA driver API, "GPUDirect RDMA" with VMM).
    properties_.allocFlags.gpuDirectRDMACapable =
        attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) != 0;
  }

  CudaHeap make(std::uint64_t bytes, FabricUse use) {
    heap_.granularity = granularity();
    const bool supported = use != FabricUse::kOff && attribute(kFabricSupported) != 0;
    if (supported) {
      properties_.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | kFabricHandleType);
      // This also applies to a heap that then gets no such handle: all PEs of a job need the same
      // size.
      heap_.granularity = std::max(heap_.granularity, granularity());
    }
    heap_.bytes = (bytes + heap_.granularity - 1) / heap_.granularity * heap_.granularity;
    if (use == FabricUse::kOff) {
      heap_.why_no_fabric = "fabric handles are off";
    } else if (!supported) {
      heap_.why_no_fabric = "the GPU or its driver has no fabric handles";
    }
    create();
    export_handles();
    require(use != FabricUse::kOn || heap_.fabric, GSHMEMX_ERROR_NOT_SUPPORTED,
            "GSHMEM_FABRIC=on: " + heap_.why_no_fabric + (no_channel_ ? kChannel : ""));
    return std::move(heap_);
  }

 private:
  [[nodiscard]] int attribute(CUdevice_attribute which) const {
    int value = 0;
    // If this driver does not know an attribute, the GPU does not have it.
    return cuda_.cuDeviceGetAttribute(&value, which, device_) == CUDA_SUCCESS ? value : 0;
  }
  [[nodiscard]] std::size_t granularity() const {
    std::size_t bytes = 0;
    GSHMEM_CU(&cuda_, cuMemGetAllocationGranularity, &bytes, &properties_,
              CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    return bytes;
  }

  void create() {
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = cuda_.cuMemCreate(&handle, heap_.bytes, &properties_, 0);
    const bool fabric =
        properties_.requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (fabric && result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY) {
      heap_.why_no_fabric = "cuMemCreate with a fabric handle: " + cuda_text(cuda_, result);
      no_channel_ = result == CUDA_ERROR_NOT_PERMITTED;
      if (no_channel_) heap_.why_no_fabric += kNoChannel;
      properties_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
      result = cuda_.cuMemCreate(&handle, heap_.bytes, &properties_, 0);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      const bool first = part_ == HeapPart::kFirst;
      std::size_t free = 0, total = 0;
      GSHMEM_CU(&cuda_, cuMemGetInfo, &free, &total);
      throw Error(
          GSHMEMX_ERROR_OUT_OF_MEMORY,
          strprintf("%s of %s does not fit on the GPU (%s of %s free)%s",
                    first ? "symmetric heap" : "a later part of the symmetric heap",
                    size_text(heap_.bytes).c_str(), size_text(free).c_str(),
                    size_text(total).c_str(), first ? "; lower GSHMEM_SYMMETRIC_SIZE" : ""));
    }
    cuda_.check(result, "cuMemCreate");
    heap_.memory = CudaAllocation(cuda_, handle);
  }

  void export_handles() {
    const CUmemGenericAllocationHandle memory = heap_.memory.handle();
    heap_.fd = export_descriptor(cuda_, memory);
    if (!heap_.why_no_fabric.empty()) return;
    FabricHandle handle{};
    const CUresult result =
        cuda_.cuMemExportToShareableHandle(handle.data(), memory, kFabricHandleType, 0);
    if (result == CUDA_SUCCESS) {
      heap_.fabric = handle;
    } else {
      heap_.why_no_fabric = "export of the fabric handle: " + cuda_text(cuda_, result);
    }
  }

  CudaHeap heap_;
  const CudaDriver& cuda_;
  int device_;
  HeapPart part_;
  CUmemAllocationProp properties_{};
  bool no_channel_ = false;
};

}  // namespace

CudaHeap make_cuda_heap(const CudaDriver& cuda, int device, std::uint64_t bytes, FabricUse fabric,
                        HeapPart part) {
  return HeapMaker(cuda, device, part).make(bytes, fabric);
}

Fd export_descriptor(const CudaDriver& cuda, CUmemGenericAllocationHandle memory) {
  int fd = -1;
  GSHMEM_CU(&cuda, cuMemExportToShareableHandle, &fd, memory,
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  Fd own(fd);
  // A program that another thread starts in the meantime would keep the memory.
  check_errno(::fcntl(own.get(), F_SETFD, FD_CLOEXEC), "fcntl(GPU memory)");
  return own;
}

std::string cuda_text(const CudaDriver& cuda, CUresult result) {
  const char* text = nullptr;
  cuda.cuGetErrorString(result, &text);
  return text != nullptr ? text : strprintf("CUDA error %d", static_cast<int>(result));
}

}  // namespace gshmem::p2p

#include "transport/p2p/window.h"

#if defined(GSHMEM_HAVE_CUDA)
#include "host/base/cuda_driver.h"

#include <cstdint>

namespace gshmem::p2p {
namespace {

class CudaWindow final : public PeerWindow {
 public:
  CudaWindow(PeerSockets& sockets, int device, std::uint64_t bytes) : cuda_(*CudaDriver::get()) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    std::size_t granularity = 0;
    GSHMEM_CU(&cuda_, cuMemGetAllocationGranularity, &granularity, &properties,
              CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    bytes_ = (bytes + granularity - 1) / granularity * granularity;
    stride_ = static_cast<std::int64_t>(bytes_);

    const Fd mine = create_own(properties);
    const std::vector<Fd> segments = sockets.exchange(mine.get());
    reserved_ = bytes_ * segments.size();
    try {
      CUdeviceptr range = 0;
      GSHMEM_CU(&cuda_, cuMemAddressReserve, &range, reserved_, granularity, 0, 0);
      base_ = reinterpret_cast<char*>(range);
      for (std::size_t pe = 0; pe < segments.size(); ++pe) map(pe, segments[pe].get(), device);
    } catch (...) {
      release();
      throw;
    }
  }
  ~CudaWindow() override { release(); }

 private:
  /// Allocates this PE's heap and exports it; the exported descriptor keeps it alive until it is
  /// mapped.
  Fd create_own(const CUmemAllocationProp& properties) {
    CUmemGenericAllocationHandle handle = 0;
    const CUresult result = cuda_.cuMemCreate(&handle, bytes_, &properties, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      std::size_t free = 0, total = 0;
      GSHMEM_CU(&cuda_, cuMemGetInfo, &free, &total);
      throw Error(GSHMEMX_ERROR_OUT_OF_MEMORY,
                  strprintf("symmetric heap of %lu bytes does not fit on the GPU (%zu of %zu bytes "
                            "free); lower GSHMEM_SYMMETRIC_SIZE",
                            bytes_, free, total));
    }
    cu_check(result, "cuMemCreate");
    int fd = -1;
    const CUresult exported = cuda_.cuMemExportToShareableHandle(
        &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    cuda_.cuMemRelease(handle);
    cu_check(exported, "cuMemExportToShareableHandle");
    return Fd(fd);
  }

  void map(std::size_t pe, int fd, int device) {
    CUmemGenericAllocationHandle handle = 0;
    void* os_handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd));
    GSHMEM_CU(&cuda_, cuMemImportFromShareableHandle, &handle, os_handle,
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    const CUdeviceptr at = reinterpret_cast<CUdeviceptr>(base_) + bytes_ * pe;
    const CUresult mapped = cuda_.cuMemMap(at, bytes_, 0, handle, 0);
    cuda_.cuMemRelease(handle);  // the mapping keeps the memory
    cu_check(mapped, "cuMemMap");
    mapped_ = pe + 1;
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const CUresult allowed = cuda_.cuMemSetAccess(at, bytes_, &access, 1);
    if (allowed != CUDA_SUCCESS) {
      const char* text = nullptr;
      cuda_.cuGetErrorString(allowed, &text);
      throw Error(
          GSHMEMX_ERROR_NOT_SUPPORTED,
          strprintf("GPU %d cannot reach the memory of PE %zu's GPU by load/store (%s), and "
                    "this version has no network path",
                    device, pe, text ? text : "unknown error"));
    }
  }

  /// Errors are ignored: after a fault the context may be gone, and the process must go on.
  void release() noexcept {
    if (!base_) return;
    const CUdeviceptr base = reinterpret_cast<CUdeviceptr>(base_);
    for (std::size_t pe = 0; pe < mapped_; ++pe) cuda_.cuMemUnmap(base + bytes_ * pe, bytes_);
    cuda_.cuMemAddressFree(base, reserved_);
    base_ = nullptr;
  }

  const CudaDriver& cuda_;
  std::uint64_t reserved_ = 0;
  std::size_t mapped_ = 0;
};

}  // namespace

std::unique_ptr<PeerWindow> make_cuda_window(PeerSockets& sockets, int device,
                                             std::uint64_t bytes) {
  return std::make_unique<CudaWindow>(sockets, device, bytes);
}

}  // namespace gshmem::p2p

#else

namespace gshmem::p2p {

std::unique_ptr<PeerWindow> make_cuda_window(PeerSockets&, int, std::uint64_t) {
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED,
              "this build of gshmem has no GPU support (no CUDA toolkit)");
}

}  // namespace gshmem::p2p

#endif

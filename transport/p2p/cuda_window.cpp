#include "transport/p2p/window.h"

#if defined(GSHMEM_HAVE_CUDA)
#include "host/base/cuda_driver.h"
#include "transport/p2p/mapped_set.h"

#include <cstdint>
#include <optional>

namespace gshmem::p2p {
namespace {

class CudaWindow final : public PeerWindow {
 public:
  CudaWindow(PeerSockets& sockets, int device, std::uint64_t bytes, Peers peers)
      : cuda_(*CudaDriver::get()), device_(device) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    // So that a NIC may register the heap (CUDA driver API, "GPUDirect RDMA" with VMM).
    int rdma = 0;
    GSHMEM_CU(&cuda_, cuDeviceGetAttribute, &rdma,
              CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device);
    properties.allocFlags.gpuDirectRDMACapable = rdma != 0;
    std::size_t granularity = 0;
    GSHMEM_CU(&cuda_, cuMemGetAllocationGranularity, &granularity, &properties,
              CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    bytes_ = (bytes + granularity - 1) / granularity * granularity;
    stride_ = static_cast<std::int64_t>(bytes_);

    const bool all = peers == Peers::kOfHost;
    std::vector<Fd> segments;
    segments.push_back(create_own(properties));
    if (all) segments = sockets.exchange(segments[0].get());
    reserved_ = bytes_ * segments.size();
    at_slot_.assign(segments.size(), false);
    why_not_.assign(static_cast<std::size_t>(sockets.size()), all ? "" : "GSHMEM_P2P=0");
    mapped_.assign(why_not_.size(), false);
    try {
      CUdeviceptr range = 0;
      GSHMEM_CU(&cuda_, cuMemAddressReserve, &range, reserved_, granularity, 0, 0);
      base_ = reinterpret_cast<char*>(range);
      if (all) {
        map_host(sockets, segments);
      } else {
        require(map(0, segments[0].get()), GSHMEMX_ERROR_CUDA, "the own heap: " + why_not_[0]);
      }
    } catch (...) {
      release();
      throw;
    }
    heap_ = base_ + (all ? stride_ * sockets.group().index : 0);
  }
  ~CudaWindow() override { release(); }
  std::string why_not(int index) const override {
    return why_not_[static_cast<std::size_t>(index)];
  }

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

  /// Maps all that this GPU reaches; then keeps those with whom it forms a set, on which all agree.
  void map_host(PeerSockets& sockets, const std::vector<Fd>& segments) {
    const std::size_t me = static_cast<std::size_t>(sockets.group().index);
    std::optional<Error> failure;  // thrown after the others have heard from this PE
    try {
      for (std::size_t slot = 0; slot < segments.size(); ++slot)
        (void)map(slot, segments[slot].get());
      require(at_slot_[me], GSHMEMX_ERROR_CUDA, "the own heap: " + why_not_[me]);
    } catch (const Error& error) {
      failure = error;
    }
    const std::vector<char> reached(at_slot_.begin(), at_slot_.end());
    const std::vector<int> sets = sets_that_reach_each_other(sockets.gather(reached));
    if (failure) throw *failure;
    for (std::size_t slot = 0; slot < segments.size(); ++slot) {
      mapped_[slot] = sets[slot] == sets[me];
      if (mapped_[slot] || !at_slot_[slot]) continue;
      unmap(slot);
      why_not_[slot] = "its GPU and this one do not reach the same other GPUs";
    }
  }

  /// False, with the reason in why_not_, when this GPU cannot reach the segment.
  bool map(std::size_t slot, int fd) {
    CUmemGenericAllocationHandle handle = 0;
    void* os_handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd));
    GSHMEM_CU(&cuda_, cuMemImportFromShareableHandle, &handle, os_handle,
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    const CUdeviceptr at = address(slot);
    const CUresult mapped = cuda_.cuMemMap(at, bytes_, 0, handle, 0);
    cuda_.cuMemRelease(handle);  // the mapping keeps the memory
    cu_check(mapped, "cuMemMap");
    at_slot_[slot] = true;
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device_}};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const CUresult allowed = cuda_.cuMemSetAccess(at, bytes_, &access, 1);
    if (allowed == CUDA_SUCCESS) return true;
    const char* text = nullptr;
    cuda_.cuGetErrorString(allowed, &text);
    why_not_[slot] = strprintf("GPU %d cannot reach the memory of its GPU by load/store (%s)",
                               device_, text ? text : "unknown error");
    unmap(slot);
    return false;
  }

  [[nodiscard]] CUdeviceptr address(std::size_t slot) const {
    return reinterpret_cast<CUdeviceptr>(base_) + bytes_ * slot;
  }
  void unmap(std::size_t slot) noexcept {
    if (at_slot_[slot]) cuda_.cuMemUnmap(address(slot), bytes_);
    at_slot_[slot] = false;
  }

  /// Errors are ignored: after a fault the context may be gone, and the process must go on.
  void release() noexcept {
    if (!base_) return;
    for (std::size_t slot = 0; slot < at_slot_.size(); ++slot) unmap(slot);
    cuda_.cuMemAddressFree(reinterpret_cast<CUdeviceptr>(base_), reserved_);
    base_ = nullptr;
  }

  const CudaDriver& cuda_;
  int device_;
  char* base_ = nullptr;  ///< of slot 0
  std::uint64_t reserved_ = 0;
  std::vector<bool> at_slot_;         ///< something is mapped there
  std::vector<std::string> why_not_;  ///< by index
};

}  // namespace

std::unique_ptr<PeerWindow> make_cuda_window(PeerSockets& sockets, int device, std::uint64_t bytes,
                                             Peers peers) {
  return std::make_unique<CudaWindow>(sockets, device, bytes, peers);
}

}  // namespace gshmem::p2p

#else

namespace gshmem::p2p {

std::unique_ptr<PeerWindow> make_cuda_window(PeerSockets&, int, std::uint64_t, Peers) {
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED,
              "this build of gshmem has no GPU support (no CUDA toolkit)");
}

}  // namespace gshmem::p2p

#endif

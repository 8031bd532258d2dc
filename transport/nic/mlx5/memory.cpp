// Uses the CUDA driver (cuMemGetHandleForAddressRange) to export GPU memory as dmabuf.
#include "transport/nic/mlx5/memory.h"

#include "host/base/fd.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#if defined(GSHMEM_HAVE_CUDA)
#include "host/base/cuda_driver.h"
#endif

namespace gshmem::nic::mlx5 {
namespace {

enum class Use { kHeap, kQueues };

/// Returns the requirements for registering GPU memory, and a configuration that does not need it.
/// Kernels: linux drivers/infiniband/core/umem_dmabuf.c for regions, hw/mlx5/devx.c devx_umem_get
/// for user memory of DevX (MLX5DV_UMEM_MASK_DMABUF).
const char* gpu_advice(Use use) {
  return use == Use::kHeap
             ? "A heap in GPU memory needs either dmabuf (Linux 5.12, rdma-core 34 and the open "
               "GPU "
               "driver or newer) or the module nvidia-peermem (modprobe nvidia-peermem, once per "
               "boot); otherwise GSHMEM_NIC=ofi."
             : "Queues in GPU memory need either dmabuf (Linux 6.1, rdma-core 44 and the open GPU "
               "driver or newer) or the module nvidia-peermem (modprobe nvidia-peermem, once per "
               "boot); otherwise GSHMEM_QUEUE_MEMORY=host.";
}

// Values of CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE (CUDA 12.8) and
// MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT (man mlx5dv_reg_dmabuf_mr), which older headers lack.
constexpr unsigned long long kMappedByPcie = 1;
constexpr int kDataDirect = 1;
constexpr char kDirectAdvice[] =
    "GSHMEM_IB_DATA_DIRECT=on needs a NIC that has a Data Direct function, a kernel and a libmlx5 "
    "that know it, and a GPU driver for CUDA 12.8 or newer; auto does without.";

/// Collects all attempts and their results, for the error when none succeeded.
class Attempts {
 public:
  explicit Attempts(bool only_direct = false) : only_direct_(only_direct) {}
  void failed(const std::string& call, int error) {
    failed(call + ": " + (error != 0 ? std::strerror(error) : "failed without an error number"));
    denied_ |= error == EPERM || error == EACCES;
    no_memory_ |= error == ENOMEM || error == EAGAIN;
  }
  void failed(const std::string& text) { list_ += (list_.empty() ? "" : "; ") + text; }
  [[noreturn]] void raise(const Region& region, Use use, Where where = {}) const {
    const bool gpu = region.kind == MemoryKind::kGpu;
    std::string text =
        strprintf("cannot register %lu bytes of %s memory at %p for %s: %s. ", region.bytes,
                  gpu ? "GPU" : "host", region.base,
                  use == Use::kHeap ? "remote access" : "work queues", list_.c_str());
    if (no_memory_)
      text +=
          "Raise the limit of locked memory (ulimit -l unlimited; docker: --ulimit memlock=-1). ";
    if (denied_) text += "The user needs read and write access to /dev/infiniband/uverbs*. ";
    if (only_direct_) text += kDirectAdvice;
    if (gpu && !only_direct_) text += gpu_advice(use);
    throw Error(no_memory_ ? GSHMEMX_ERROR_OUT_OF_MEMORY : GSHMEMX_ERROR_NIC, text, where);
  }

 private:
  std::string list_;
  bool denied_ = false, no_memory_ = false, only_direct_;
};

/// Returns the number of bytes between the beginning of a page and that of the memory, which is not
/// 0 for local memory.
std::uint64_t begin_in_page(const Region& region) {
  return reinterpret_cast<std::uintptr_t>(region.base) %
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// Exports a dmabuf of the GPU memory, in whole pages (cuMemGetHandleForAddressRange needs them).
/// Returns nothing on failure, with the reason in `attempts`. The dmabuf may be closed as soon as
/// the memory is registered.
Fd export_dmabuf([[maybe_unused]] const Region& region, Attempts& attempts,
                 [[maybe_unused]] unsigned long long flags = 0) {
#if defined(GSHMEM_HAVE_CUDA)
  const CudaDriver* const cuda = CudaDriver::get();
  if (cuda == nullptr) {
    attempts.failed("dmabuf: " + CudaDriver::why_not());
    return {};
  }
  int fd = -1;
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t before = begin_in_page(region);
  const CUdeviceptr begin = reinterpret_cast<CUdeviceptr>(region.base) - before;
  const std::uint64_t bytes = (before + region.bytes + page - 1) / page * page;
  const CUresult result = cuda->cuMemGetHandleForAddressRange(
      &fd, begin, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
  if (result == CUDA_SUCCESS) return Fd(fd);
  const char* name = nullptr;
  cuda->cuGetErrorName(result, &name);
  attempts.failed(std::string("cuMemGetHandleForAddressRange(dmabuf): ") +
                  (name != nullptr ? name : "unknown error"));
#else
  attempts.failed("dmabuf: this build of gshmem has no GPU support");
#endif
  return {};
}

void forbid_gpu_without_gdr(const Device& device, const Region& region) {
  require(region.kind == MemoryKind::kHost || device.config.gdr != Switch::kOff,
          GSHMEMX_ERROR_NOT_SUPPORTED,
          "GSHMEM_GDR=off, but the mlx5 path has the NIC read and write GPU memory itself: set "
          "GSHMEM_GDR=auto, or GSHMEM_NIC=ofi, which can stage through host memory");
}

/// Returns the page sizes that the device may use for queues. Queues are at offsets in their umem,
/// and commands that take offsets must limit its page size (linux drivers/infiniband/hw/mlx5/devx.c
/// devx_umem_reg_cmd_alloc). Offsets in a page are counted in 64 steps, so queues on pages of 4 KiB
/// need pages of 256 KiB at most. The host's page sizes must be included, because kernels before
/// 6.7 accept no smaller ones (ib_umem_find_best_pgsz).
std::uint64_t queue_page_sizes() {
  constexpr std::uint64_t kSmallest = 4096, kLargest = kSmallest * 64;
  const std::uint64_t host = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t largest = std::clamp(host, kSmallest, kLargest);
  return largest * 2 - kSmallest;
}

/// Registers GPU memory by its dmabuf; returns null with the reason in `attempts`.
ibv_mr* register_dmabuf(const Device& device, const Region& region, int access, bool direct,
                        Attempts& attempts) {
  const VerbsApi& api = device.api;
  const char* const call = direct ? "mlx5dv_reg_dmabuf_mr" : "ibv_reg_dmabuf_mr";
  const Fd dmabuf = export_dmabuf(region, attempts, direct ? kMappedByPcie : 0);
  if (!dmabuf) return nullptr;
  if (direct ? api.reg_dmabuf_direct == nullptr : api.reg_dmabuf_mr == nullptr) {
    attempts.failed(std::string(call) + (direct
                                             ? ": not in this libmlx5 (MLX5_1.25)"
                                             : ": not in this libibverbs (rdma-core 34 has it)"));
    return nullptr;
  }
  ibv_pd* const pd = device.pd.get();
  errno = 0;
  const std::uint64_t at = begin_in_page(region);
  ibv_mr* const mr =
      direct ? api.reg_dmabuf_direct(pd, at, region.bytes, region.offset, dmabuf.get(), access,
                                     kDataDirect)
             : api.reg_dmabuf_mr(pd, at, region.bytes, region.offset, dmabuf.get(), access);
  if (mr == nullptr) attempts.failed(call, errno);
  return mr;
}

}  // namespace

RegisteredRegion register_region(const Device& device, const Region& region, Order order) {
  forbid_gpu_without_gdr(device, region);
  const VerbsApi& api = device.api;
  int access = IBV_ACCESS_LOCAL_WRITE;
  if (!region.local)
    access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if (order == Order::kRelaxed) access |= IBV_ACCESS_RELAXED_ORDERING;
  const auto owned = [&](ibv_mr* mr, bool direct = false) {
    return RegisteredRegion{own(mr, api.dereg_mr, "ibv_dereg_mr"), direct};
  };
  const Switch data_direct = device.config.ib_data_direct;
  const bool gpu = region.kind == MemoryKind::kGpu;
  Attempts attempts(gpu && data_direct == Switch::kOn);
  for (const bool direct : {true, false}) {
    if (!gpu || (direct && data_direct == Switch::kOff)) continue;
    if (!direct && data_direct == Switch::kOn) attempts.raise(region, Use::kHeap);
    ibv_mr* mr = register_dmabuf(device, region, access, direct, attempts);
    if (mr != nullptr) return owned(mr, direct);
  }
  errno = 0;
  ibv_mr* mr = api.reg_mr_iova2(device.pd.get(), region.base, region.bytes, region.offset,
                                static_cast<unsigned>(access));
  if (mr != nullptr) return owned(mr);
  attempts.failed("ibv_reg_mr_iova2", errno);
  attempts.raise(region, Use::kHeap);
}

OwnedUmem register_queues(const Device& device, const Region& region) {
  forbid_gpu_without_gdr(device, region);
  const VerbsApi& api = device.api;
  const auto owned = [&](mlx5dv_devx_umem* umem) {
    return own(umem, api.umem_dereg, "mlx5dv_devx_umem_dereg");
  };
  mlx5dv_devx_umem_in in{};
  in.size = region.bytes;
  in.access = IBV_ACCESS_LOCAL_WRITE;
  in.pgsz_bitmap = queue_page_sizes();
  Attempts attempts;
  if (region.kind == MemoryKind::kGpu) {
    const Fd dmabuf = export_dmabuf(region, attempts);
    if (dmabuf && api.umem_reg_ex == nullptr) {
      attempts.failed(
          "mlx5dv_devx_umem_reg_ex: not in this libmlx5 (rdma-core 35 has it, for dmabuf from 44 "
          "on)");
    } else if (dmabuf) {
      // With a dmabuf, the address is an offset into it (linux drivers/infiniband/hw/mlx5/devx.c
      // devx_umem_get), and the dmabuf begins where the region begins.
      in.addr = nullptr;
      in.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
      in.dmabuf_fd = dmabuf.get();
      mlx5dv_devx_umem* umem = api.umem_reg_ex(device.context.get(), &in);
      if (umem != nullptr) return owned(umem);
      attempts.failed("mlx5dv_devx_umem_reg_ex(dmabuf)", errno);
    }
  }
  int error = EOPNOTSUPP;
  if (api.umem_reg_ex != nullptr) {
    in.addr = region.base;
    in.comp_mask = 0;
    mlx5dv_devx_umem* umem = api.umem_reg_ex(device.context.get(), &in);
    if (umem != nullptr) return owned(umem);
    error = errno;
    attempts.failed("mlx5dv_devx_umem_reg_ex", error);
  }
  // A kernel that does not know the bitmap (before Linux 5.13) refuses it, and uses pages of the
  // host's size on its own. With a newer kernel, but a library before rdma-core 35, there is no
  // choice.
  if (error == EOPNOTSUPP || error == EPROTONOSUPPORT) {
    mlx5dv_devx_umem* umem =
        api.umem_reg(device.context.get(), region.base, region.bytes, IBV_ACCESS_LOCAL_WRITE);
    if (umem != nullptr) return owned(umem);
    attempts.failed("mlx5dv_devx_umem_reg", errno);
  }
  attempts.raise(region, Use::kQueues);
}

}  // namespace gshmem::nic::mlx5

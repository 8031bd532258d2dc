// GPU memory through the CUDA driver: copies on private non-blocking streams between the heap and
// pinned host memory, several at a time. They pass kernels that are running, even one that spins
// for what they bring: no default stream, nothing allocated after construction.
#include "transport/ofi/fabric.h"
#include "transport/ofi/memory_access.h"

#include "host/base/cuda_driver.h"

#include <array>
#include <cstring>

namespace gshmem::ofi {
namespace {

/// A primary context, current in its scope.
class Current {
 public:
  Current(const CudaDriver& cuda, CUcontext context) : cuda_(cuda) {
    GSHMEM_CU(&cuda_, cuCtxPushCurrent, context);
  }
  ~Current() {
    CUcontext popped = nullptr;
    cuda_.cuCtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;

 private:
  const CudaDriver& cuda_;
};

class Gpu {
 public:
  explicit Gpu(int device) : cuda_(*CudaDriver::get()) {
    GSHMEM_CU(&cuda_, cuDeviceGet, &device_, device);
    GSHMEM_CU(&cuda_, cuDevicePrimaryCtxRetain, &context_, device_);
  }
  ~Gpu() { cuda_.cuDevicePrimaryCtxRelease(device_); }
  Gpu(const Gpu&) = delete;
  [[nodiscard]] const CudaDriver& cuda() const { return cuda_; }
  [[nodiscard]] CUcontext context() const { return context_; }

 private:
  const CudaDriver& cuda_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

class GpuAccess final : public MemoryAccess {
 public:
  explicit GpuAccess(const nic::Region& heap)
      : gpu_(std::make_shared<Gpu>(heap.gpu)),
        cuda_(gpu_->cuda()),
        base_(reinterpret_cast<CUdeviceptr>(heap.base)) {
    const Current current(cuda_, gpu_->context());
    word_ = allocate(kWordBytes);
    try {
      for (Lane& lane : lanes_)
        GSHMEM_CU(&cuda_, cuStreamCreate, &lane.stream, CU_STREAM_NON_BLOCKING);
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~GpuAccess() override { destroy(); }

  void attach_thread() override { GSHMEM_CU(&cuda_, cuCtxSetCurrent, gpu_->context()); }

  Staging allocate(std::size_t bytes) override {
    const Current current(cuda_, gpu_->context());
    void* memory = nullptr;
    GSHMEM_CU(&cuda_, cuMemHostAlloc, &memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
    std::memset(memory, 0, bytes);
    return {static_cast<std::uint8_t*>(memory), [gpu = gpu_](std::uint8_t* pinned) {
              CUcontext popped = nullptr;
              gpu->cuda().cuCtxPushCurrent(gpu->context());
              gpu->cuda().cuMemFreeHost(pinned);
              gpu->cuda().cuCtxPopCurrent(&popped);
            }};
  }

  Ticket start_write(std::uint64_t offset, const void* from, std::size_t bytes) override {
    if (bytes == 0) return kNoTicket;
    const Ticket ticket = take_lane();
    GSHMEM_CU(&cuda_, cuMemcpyHtoDAsync, base_ + offset, from, bytes, lane(ticket).stream);
    return ticket;
  }
  Ticket start_read(std::uint64_t offset, void* to, std::size_t bytes) override {
    if (bytes == 0) return kNoTicket;
    const Ticket ticket = take_lane();
    GSHMEM_CU(&cuda_, cuMemcpyDtoHAsync, to, base_ + offset, bytes, lane(ticket).stream);
    return ticket;
  }
  bool done(Ticket ticket) override {
    if (ticket == kNoTicket) return true;
    const CUresult result = cuda_.cuStreamQuery(lane(ticket).stream);
    if (result == CUDA_ERROR_NOT_READY) return false;
    lane(ticket).busy = false;
    cuda_.check(result, "cuStreamQuery");
    return true;
  }

  // Read, change, write back: atomic to all others of this executor, which does one at a time, and
  // not to those of the GPU.
  std::uint64_t atomic(std::uint64_t offset, const nic::Wqe& wqe) override {
    std::uint64_t old = 0, result = 0;
    wait(start_read(offset, word_.get(), wqe.length));
    std::memcpy(&old, word_.get(), wqe.length);  // little-endian, as all hosts of NVIDIA GPUs
    result = nic::atomic_result(wqe, old);
    if (result != old) {
      std::memcpy(word_.get(), &result, wqe.length);
      wait(start_write(offset, word_.get(), wqe.length));
    }
    return old;
  }
  bool coherent() const override { return false; }

 private:
  struct Lane {
    CUstream stream = nullptr;
    bool busy = false;
  };
  static constexpr std::size_t kLanes = 8, kWordBytes = 64;

  Lane& lane(Ticket ticket) { return lanes_[static_cast<std::size_t>(ticket)]; }

  /// A lane whose copy has been reported. When there is none, one that is idle by now is found by
  /// waiting for the oldest users in turn: their tickets stay valid, because a stream that has been
  /// waited for is still done.
  Ticket take_lane() {
    for (std::size_t i = 0; i < kLanes; ++i)
      if (!lanes_[i].busy) return take(i);
    // All lanes have a copy that nobody has asked about yet: queue behind one of them.
    next_ = (next_ + 1) % kLanes;
    GSHMEM_CU(&cuda_, cuStreamSynchronize, lanes_[next_].stream);
    return take(next_);
  }
  Ticket take(std::size_t i) {
    lanes_[i].busy = true;
    return static_cast<Ticket>(i);
  }
  void wait(Ticket ticket) {
    while (!done(ticket)) continue;
  }

  void destroy() noexcept {
    CUcontext popped = nullptr;
    cuda_.cuCtxPushCurrent(gpu_->context());
    for (Lane& lane : lanes_) {
      if (lane.stream == nullptr) continue;
      cuda_.cuStreamSynchronize(lane.stream);
      cuda_.cuStreamDestroy(lane.stream);
    }
    cuda_.cuCtxPopCurrent(&popped);
  }

  std::shared_ptr<Gpu> gpu_;  // staging memory may outlive this object
  const CudaDriver& cuda_;
  CUdeviceptr base_;
  std::array<Lane, kLanes> lanes_;
  std::size_t next_ = 0;
  Staging word_;  ///< pinned
};

}  // namespace

std::unique_ptr<MemoryAccess> make_gpu_access(const nic::Region& heap) {
  require(CudaDriver::get() != nullptr, GSHMEMX_ERROR_NOT_SUPPORTED,
          "no GPU: " + CudaDriver::why_not());
  return std::make_unique<GpuAccess>(heap);
}

void check_gpu_registration(Fabric& fabric, int gpu_number) {
  require(CudaDriver::get() != nullptr, GSHMEMX_ERROR_NOT_SUPPORTED,
          "no GPU: " + CudaDriver::why_not());
  constexpr std::size_t kProbe = 64 * 1024;
  const Gpu gpu(gpu_number);
  const Current current(gpu.cuda(), gpu.context());
  CUdeviceptr memory = 0;
  GSHMEM_CU(&gpu.cuda(), cuMemAlloc, &memory, kProbe);
  try {
    fabric.try_registration({.base = reinterpret_cast<void*>(memory),
                             .bytes = kProbe,
                             .kind = nic::MemoryKind::kGpu,
                             .gpu = gpu_number});
  } catch (...) {
    gpu.cuda().cuMemFree(memory);
    throw;
  }
  gpu.cuda().cuMemFree(memory);
}

}  // namespace gshmem::ofi

// Accesses GPU memory through the CUDA driver (cuda.h). Each device has a context of its own, a
// non-blocking stream and pinned staging memory. All are made when the first region of a device is
// registered. So a transfer never waits for a kernel that itself waits for the transfer, nor for a
// call of the application that does. The number of waits for the stream costs more than the bytes.
// A put_bw whose threads polled host memory took 5.2 ms with 41 waits per MiB; a get_bw took 9.5 ms
// with 71 (H200s), which is 130 us per wait. So copies are collected, and one wait serves all of
// them.
#include "transport/softnic/memory.h"

#include "host/base/copy_context.h"
#include "host/base/cuda_scope.h"
#include "host/base/log.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace gshmem::soft {
namespace {

constexpr std::size_t kStagingBytes = 1 << 20;  // for writes
constexpr std::size_t kReadBytes = 1 << 20;
/// Writes up to this size may be flags. Each stays a separate copy, since the bytes of one copy
/// have no order.
constexpr std::size_t kFlagBytes = 64;

CUdeviceptr device_address(const void* address) {
  return static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(address));
}

class GpuMemory final : public MemoryAccess {
 public:
  GpuMemory(const CudaDriver& cuda, int device)
      : cuda_(cuda), context_(CopyContext::on(cuda, device)) {
    const CudaScope scope(cuda_, context_->get());
    GSHMEM_CU(&cuda_, cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
    void* pinned = nullptr;
    GSHMEM_CU(&cuda_, cuMemHostAlloc, &pinned, kStagingBytes + kReadBytes,
              CU_MEMHOSTALLOC_PORTABLE);
    staging_ = static_cast<std::uint8_t*>(pinned);
    reading_ = staging_ + kStagingBytes;
  }

  bool write(void* to, const void* from, std::size_t bytes) override {
    return guarded([&] {
      const auto* source = static_cast<const std::uint8_t*>(from);
      auto* target = static_cast<std::uint8_t*>(to);
      while (bytes > 0) {
        if (used_ == kStagingBytes) copy_out();
        const std::size_t part = std::min(bytes, kStagingBytes - used_);
        std::memcpy(staging_ + used_, source, part);
        stage(target, part);
        source += part, target += part, bytes -= part;
      }
    });
  }

  bool read(const Part* parts, std::size_t count) override {
    return guarded([&] {
      copy_out();
      for (std::size_t i = 0; i < count; ++i) {
        const auto* source = static_cast<const std::uint8_t*>(parts[i].from);
        auto* target = static_cast<std::uint8_t*>(parts[i].to);
        for (std::size_t at = 0, part = 0; at < parts[i].bytes; at += part) {
          part = std::min(parts[i].bytes - at, kReadBytes);
          if (part > kReadBytes - arriving_bytes_) copy_in();
          arriving_.push_back({target + at, source + at, part});
          arriving_bytes_ += part;
        }
      }
      copy_in();
    });
  }

  /// Executes an atomic. It is atomic to other atomics of this process's engine, by which all
  /// remote accesses come. It is not atomic to those of kernels, as with most NICs.
  bool atomic(void* word, const nic::Wqe& wqe, std::uint64_t* old) override {
    return guarded([&] {
      copy_out();
      std::uint64_t value = 0;  // little-endian machines only: x86-64, aarch64
      arriving_.push_back({&value, word, wqe.length});
      copy_in();
      *old = value;
      const std::uint64_t changed = nic::atomic_result(wqe, value);
      std::memcpy(staging_, &changed, wqe.length);
      stage(static_cast<std::uint8_t*>(word), wqe.length);
      copy_out();
    });
  }

  bool flush() override {
    return guarded([&] { copy_out(); });
  }
  [[nodiscard]] bool batched() const override { return true; }

 private:
  struct Extent {
    std::uint8_t* to;
    std::size_t first, bytes;  ///< in staging_
    bool open;                 ///< a write right after it may be merged into it
  };

  /// Runs `body` with the lock; false when the driver fails.
  template <class F>
  bool guarded(F body) {
    const std::lock_guard lock(mutex_);
    try {
      body();
      return true;
    } catch (const Error& error) {
      if (!extents_.empty()) count_lost_writes();
      extents_.clear();
      arriving_.clear();
      used_ = arriving_bytes_ = 0;
      GSHMEM_LOG_LIMITED(LogLevel::kError, "soft NIC: GPU memory: %s", error.what());
      return false;
    }
  }

  /// Adds `bytes` at the end of the staging buffer.
  void stage(std::uint8_t* to, std::size_t bytes) {
    const bool open = bytes > kFlagBytes;
    if (open && !extents_.empty() && extents_.back().open &&
        extents_.back().to + extents_.back().bytes == to) {
      extents_.back().bytes += bytes;
    } else {
      extents_.push_back({to, used_, bytes, open});
    }
    used_ += bytes;
  }

  /// Copies the staged writes in stream order: a flag is stored after the payload before it.
  void copy_out() {
    if (extents_.empty()) return;
    const CudaScope scope(cuda_, context_->get());
    for (const Extent& extent : extents_) {
      context_->to_gpu(device_address(extent.to), staging_ + extent.first, extent.bytes, stream_);
    }
    GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
    extents_.clear();
    used_ = 0;
  }

  /// Copies the parts in `arriving_`, which fit into the buffer.
  void copy_in() {
    if (arriving_.empty()) return;
    const CudaScope scope(cuda_, context_->get());
    std::uint8_t* place = reading_;
    for (const Part& part : arriving_) {
      GSHMEM_CU(&cuda_, cuMemcpyDtoHAsync, place, device_address(part.from), part.bytes, stream_);
      place += part.bytes;
    }
    GSHMEM_CU(&cuda_, cuStreamSynchronize, stream_);
    place = reading_;
    for (const Part& part : arriving_) {
      std::memcpy(part.to, place, part.bytes);
      place += part.bytes;
    }
    arriving_.clear();
    arriving_bytes_ = 0;
  }

  const CudaDriver& cuda_;
  std::mutex mutex_;  ///< several engines of a process may share a device
  const std::shared_ptr<const CopyContext> context_;
  CUstream stream_ = nullptr;
  std::uint8_t* staging_ = nullptr;
  std::uint8_t* reading_ = nullptr;
  std::size_t used_ = 0;
  std::vector<Extent> extents_;
  std::vector<Part> arriving_;
  std::size_t arriving_bytes_ = 0;
};

/// Returns the device whose memory `address` is, or -1. Managed memory counts as host memory.
int device_of(const CudaDriver& cuda, const void* address) {
  const CUdeviceptr pointer = device_address(address);
  CUmemorytype type = CU_MEMORYTYPE_HOST;
  if (cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) !=
          CUDA_SUCCESS ||
      type != CU_MEMORYTYPE_DEVICE) {
    return -1;
  }
  unsigned managed = 0;
  if (cuda.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer) ==
          CUDA_SUCCESS &&
      managed != 0) {
    return -1;
  }
  int device = -1;
  GSHMEM_CU(&cuda, cuPointerGetAttribute, &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer);
  return device;
}

}  // namespace

MemoryAccess* gpu_memory(const void* address) {
  const CudaDriver* cuda = CudaDriver::get();
  const int device = cuda != nullptr ? device_of(*cuda, address) : -1;
  if (device < 0) return nullptr;
  // The objects are kept until the process ends, like the context that they hold.
  static std::mutex mutex;
  static auto& devices = *new std::map<int, std::unique_ptr<GpuMemory>>;
  const std::lock_guard lock(mutex);
  auto& memory = devices[device];
  if (memory == nullptr) memory = std::make_unique<GpuMemory>(*cuda, device);
  return memory.get();
}

}  // namespace gshmem::soft

// Accesses GPU memory through the CUDA driver. It makes copies between the heap and pinned host
// memory on non-blocking streams of a context of its own, several at a time. Copies that the
// executor starts in one round share a stream and are queried together. They run beside kernels,
// even one that spins until they deliver data: they use neither the default stream nor hardware
// queues of the application, and allocate nothing after construction.
#include "transport/ofi/copied_atomics.h"
#include "transport/ofi/memory_access.h"

#include "host/base/copy_context.h"
#include "host/base/cuda_scope.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace gshmem::ofi {
namespace {

class GpuAccess final : public MemoryAccess {
 public:
  explicit GpuAccess(const nic::Region& heap)
      : cuda_(*CudaDriver::get()),
        context_(CopyContext::on(cuda_, heap.gpu)),
        base_(reinterpret_cast<CUdeviceptr>(heap.base)) {
    const CudaScope scope(cuda_, context_->get());
    atomics_.emplace(*this);
    try {
      for (Batch& batch : batches_)
        GSHMEM_CU(&cuda_, cuStreamCreate, &batch.stream, CU_STREAM_NON_BLOCKING);
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~GpuAccess() override { destroy(); }

  void attach_thread() override {
    GSHMEM_CU(&cuda_, cuCtxSetCurrent, context_->get());
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;  // this is a thread of the library
    GSHMEM_CU(&cuda_, cuThreadExchangeStreamCaptureMode, &mode);
  }

  Staging allocate(std::size_t bytes) override {
    const CudaScope scope(cuda_, context_->get());
    void* memory = nullptr;
    GSHMEM_CU(&cuda_, cuMemHostAlloc, &memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
    std::memset(memory, 0, bytes);
    return {static_cast<std::uint8_t*>(memory),
            [&cuda = cuda_, context = context_](std::uint8_t* pinned) {
              in_context_if_there(cuda, context->get(), [&] { cuda.cuMemFreeHost(pinned); });
            }};
  }

  Ticket start_write(std::uint64_t offset, const void* from, std::size_t bytes) override {
    if (bytes == 0) return kNoTicket;
    const Batch& batch = join(Direction::kToGpu, bytes);
    context_->to_gpu(base_ + offset, from, bytes, batch.stream);
    return batch.ticket;
  }
  Ticket start_read(std::uint64_t offset, void* to, std::size_t bytes) override {
    if (bytes == 0) return kNoTicket;
    const Batch& batch = join(Direction::kToHost, bytes);
    GSHMEM_CU(&cuda_, cuMemcpyDtoHAsync, to, base_ + offset, bytes, batch.stream);
    return batch.ticket;
  }
  void poll() override {
    for (Batch& batch : batches_) {
      if (!batch.busy) continue;
      batch.left = 0;
      const CUresult result = cuda_.cuStreamQuery(batch.stream);
      if (result == CUDA_ERROR_NOT_READY || is_capture_error(result)) continue;
      batch.busy = false;
      if (result != CUDA_SUCCESS) failed_ = result;
    }
    atomics_->poll();
  }
  bool done(Ticket ticket) override {
    if (ticket == kNoTicket) return true;
    if (CopiedAtomics::is_own(ticket)) return atomics_->done(ticket);
    // The error is permanent: when a copy on a stream fails, all calls of its context fail with its
    // error.
    cuda_.check(failed_, "cuStreamQuery");
    const Batch& batch = batch_of(ticket);
    return batch.ticket != ticket || !batch.busy;
  }

  Ticket start_atomic(std::uint64_t offset, const nic::Wqe& wqe, std::uint64_t* old) override {
    return atomics_->start(offset, wqe, old);
  }
  bool coherent() const override { return false; }

 private:
  enum class Direction { kToGpu, kToHost };
  /// Copies of one direction that end together. They share one stream, and one query.
  struct Batch {
    CUstream stream = nullptr;
    Ticket ticket = kNoTicket;
    Direction direction = Direction::kToGpu;
    bool busy = false;     ///< busy as far as is known
    std::size_t left = 0;  ///< number of bytes that may join it without delaying the first copies
  };
  // 256 KiB take 5 to 10 us on PCIe, as long as a copy takes to start.
  static constexpr std::size_t kBatches = 8, kBatchBytes = 256 * 1024;

  Batch& batch_of(Ticket ticket) { return batches_[static_cast<std::size_t>(ticket) % kBatches]; }

  /// Returns the batch for a copy: the batch of its direction that is being filled, or a new one.
  /// If all are busy, it joins a pending batch: the copies in that end later, but this thread does
  /// not wait.
  Batch& join(Direction direction, std::size_t bytes) {
    Batch* gathered = nullptr;
    Batch* newest = nullptr;
    for (Batch& batch : batches_) {
      if (!batch.busy) continue;  // it is done, so copies that join it would not be queried
      if (newest == nullptr || newest->ticket < batch.ticket) newest = &batch;
      if (batch.direction != direction) continue;
      if (gathered == nullptr || gathered->ticket < batch.ticket) gathered = &batch;
    }
    const bool fits = gathered != nullptr && bytes <= gathered->left;
    Batch* const fresh = fits ? nullptr : free_batch();
    if (fresh == nullptr) {
      Batch& joined = gathered != nullptr ? *gathered : *newest;
      joined.left -= std::min(bytes, joined.left);
      return joined;
    }
    fresh->ticket = next_++;
    fresh->direction = direction;
    fresh->busy = true;
    fresh->left = kBatchBytes - std::min(bytes, kBatchBytes);
    return *fresh;
  }

  /// Returns the first batch from next_ on that is not busy; null when all are busy. A long copy
  /// only blocks its own batch, not those after it.
  Batch* free_batch() {
    for (std::size_t i = 0; i < kBatches; ++i, ++next_)
      if (!batch_of(next_).busy) return &batch_of(next_);
    return nullptr;
  }

  void destroy() noexcept {
    in_context_if_there(cuda_, context_->get(), [&] {
      for (const Batch& batch : batches_) {
        if (batch.stream == nullptr) continue;
        cuda_.cuStreamSynchronize(batch.stream);
        cuda_.cuStreamDestroy(batch.stream);
      }
    });
  }

  const CudaDriver& cuda_;
  std::shared_ptr<const CopyContext> context_;  // staging memory may outlive this object
  CUdeviceptr base_;
  std::array<Batch, kBatches> batches_;
  Ticket next_ = 0;
  CUresult failed_ = CUDA_SUCCESS;
  std::optional<CopiedAtomics> atomics_;
};

}  // namespace

std::unique_ptr<MemoryAccess> make_gpu_access(const nic::Region& heap) {
  require(CudaDriver::get() != nullptr, GSHMEMX_ERROR_NOT_SUPPORTED,
          "no GPU: " + CudaDriver::why_not());
  return std::make_unique<GpuAccess>(heap);
}

}  // namespace gshmem::ofi

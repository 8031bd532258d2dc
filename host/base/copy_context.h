// A context of the library's own on a GPU, for copies that running kernels wait for. A call of the
// application that waits for such a kernel (cudaMemcpy or cudaFree after a launch) has the lock of
// its context meanwhile: whatever other threads put into that context, copies on streams of their
// own included, waits with it, and so forever (seen with driver 580). Memory of cuMemCreate is
// reached from every context of its GPU; for that of cuMemAlloc the driver takes the lock of the
// context that made it. Included by what moves GPU memory on a thread of the library.
#pragma once

#include "host/base/cuda_driver.h"

#include <cstddef>
#include <memory>

namespace gshmem {

class CopyContext {
 public:
  /// The one of this process on GPU `device`: made by the first who asks, destroyed with the last
  /// pointer. It takes some 500 MiB of the GPU, and hardware queues. Where there are none left, a
  /// warning says so, and it is the GPU's primary context. Errors: GSHMEMX_ERROR_CUDA.
  [[nodiscard]] static std::shared_ptr<const CopyContext> on(const CudaDriver& cuda, int device);
  CopyContext(const CudaDriver& cuda, int device);
  ~CopyContext();
  CopyContext(const CopyContext&) = delete;

  [[nodiscard]] CUcontext get() const noexcept { return context_; }
  /// Copies from pinned memory to the GPU, on a stream of this context, which is current. Aligned
  /// words of 2, 4 and 8 bytes are stored in one piece. Where a kernel of another context runs
  /// without MPS, what has no aligned word of 4 bytes waits for a time slice of the GPU,
  /// milliseconds; nothing else does. Errors: GSHMEMX_ERROR_CUDA.
  void to_gpu(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) const;

 private:
  void rows(CUdeviceptr to, const char* from, std::size_t width, CUstream stream) const;
  void words(CUdeviceptr to, const char* from, std::size_t bytes, CUstream stream) const;

  const CudaDriver& cuda_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  bool is_own_ = false;
};

}  // namespace gshmem

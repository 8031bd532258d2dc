// A CUDA context of the library on a GPU, for copies that running kernels wait for. When a call of
// the application waits for such a kernel (cudaMemcpy or cudaFree after a launch), it holds the
// lock of its context. Everything that other threads do in that context waits for it, also copies
// on streams of their own, and so they deadlock (seen with driver 580). Memory of cuMemCreate is
// accessible from every context of its GPU. For memory of cuMemAlloc the driver takes the lock of
// the context that made it. Included by code that moves GPU memory on a thread of the library.
#pragma once

#include "host/base/cuda_driver.h"

#include <cstddef>
#include <memory>

namespace gshmem {

class CopyContext {
 public:
  /// Returns the context of this process on GPU `device`. The first call makes it, and it is
  /// destroyed with the last pointer. It takes about 500 MiB of the GPU, and hardware queues. If
  /// none are left, a warning is logged and the GPU's primary context is used. Errors:
  /// GSHMEMX_ERROR_CUDA.
  [[nodiscard]] static std::shared_ptr<const CopyContext> on(const CudaDriver& cuda, int device);
  CopyContext(const CudaDriver& cuda, int device);
  ~CopyContext();
  CopyContext(const CopyContext&) = delete;

  [[nodiscard]] CUcontext get() const noexcept { return context_; }
  /// Copies from pinned memory to the GPU, on a stream of this context, which is current. Aligned
  /// words of 2, 4 and 8 bytes are never torn. If a kernel of another context runs without MPS, a
  /// copy without an aligned word of 4 bytes waits for a time slice of the GPU, which takes
  /// milliseconds. Errors: GSHMEMX_ERROR_CUDA.
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

// Makes a CUDA context current on a thread and restores the previous one. Included by all code that
// calls the CUDA driver, on application threads and on threads of the library. Invariant: a scope
// that could not enter its context does not leave it either, so the application's own contexts stay
// current.
#pragma once

#include "host/base/cuda_driver.h"

namespace gshmem {

/// During its lifetime, calls of this thread do not fail because another thread captures a graph in
/// global mode (cudaStreamBeginCapture's default), and do not invalidate that capture. Source: CUDA
/// driver API, cuThreadExchangeStreamCaptureMode.
class CaptureRelaxed {
 public:
  explicit CaptureRelaxed(const CudaDriver& cuda) : cuda_(cuda) {
    GSHMEM_CU(&cuda_, cuThreadExchangeStreamCaptureMode, &mode_);
  }
  ~CaptureRelaxed() { cuda_.cuThreadExchangeStreamCaptureMode(&mode_); }
  CaptureRelaxed(const CaptureRelaxed&) = delete;

 private:
  const CudaDriver& cuda_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/// Keeps a context current on this thread during its lifetime, and does not disturb captures.
class CudaScope {
 public:
  CudaScope(const CudaDriver& cuda, CUcontext context) : cuda_(cuda), relaxed_(cuda) {
    GSHMEM_CU(&cuda_, cuCtxPushCurrent, context);
  }
  ~CudaScope() {
    CUcontext popped = nullptr;
    cuda_.cuCtxPopCurrent(&popped);
  }
  CudaScope(const CudaScope&) = delete;

 private:
  const CudaDriver& cuda_;
  const CaptureRelaxed relaxed_;
};

/// For destructors: runs `work` in the context. If the context is gone, `work` does not run,
/// because the objects that it would release are gone, too.
template <class Work>
void in_context_if_there(const CudaDriver& cuda, CUcontext context, const Work& work) noexcept {
  try {
    const CudaScope scope(cuda, context);
    work();
  } catch (const Error&) {
  }
}

/// Was the call refused because of a capture? After the capture, a repeated call returns its real
/// result.
inline bool is_capture_error(CUresult result) {
  return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
         result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

}  // namespace gshmem

// A thread's way into a CUDA context and out again. Included by whatever calls the CUDA driver,
// from application threads and from threads of the library. Invariant: what a scope cannot enter it
// does not leave, so that the application's own contexts stay where they are.
#pragma once

#include "host/base/cuda_driver.h"

namespace gshmem {

/// While it lives, calls of this thread neither fail because another thread captures a graph in
/// global mode (cudaStreamBeginCapture's default) nor spoil what that one captures.
/// Source: CUDA driver API, cuThreadExchangeStreamCaptureMode.
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

/// A context current on this thread for as long as the object lives, and captures left alone.
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

/// For destructors: runs `work` in the context, or not at all where that is gone, and with it what
/// `work` would release.
template <class Work>
void in_context_if_there(const CudaDriver& cuda, CUcontext context, const Work& work) noexcept {
  try {
    const CudaScope scope(cuda, context);
    work();
  } catch (const Error&) {
  }
}

/// The call was refused because of a capture; asked again after that, it answers.
inline bool is_capture_error(CUresult result) {
  return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
         result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

}  // namespace gshmem

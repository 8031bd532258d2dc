// Makes the GPU of a PE the current one of the thread that launches for it, by the driver's stack
// of contexts. Unlike cudaSetDevice back to the previous GPU, that does not create a context there,
// and it does not lose one that the application has made. Included by code that launches kernels.
#pragma once

#include "types.h"

extern "C" {
/// Makes the GPU of the calling thread's PE current; 0: it has none. Otherwise gshmemi_leave_gpu
/// restores the previous context.
GSHMEM_EXPORT int gshmemi_enter_gpu(void);
GSHMEM_EXPORT void gshmemi_leave_gpu(void);
}

namespace gshmem::detail {

/// The GPU is current for as long as the object lives.
class GpuScope {
 public:
  GpuScope() : entered_(gshmemi_enter_gpu() != 0) {}
  ~GpuScope() {
    if (entered_) gshmemi_leave_gpu();
  }
  GpuScope(const GpuScope&) = delete;

 private:
  bool entered_;
};

}  // namespace gshmem::detail

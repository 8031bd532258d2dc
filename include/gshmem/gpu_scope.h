// The GPU of a PE as the current one of the thread that launches for it. By the driver's stack of
// contexts: that neither makes a context on the GPU that was current before, as cudaSetDevice back
// to it might, nor loses one that the application has made. Included by what launches.
#pragma once

#include "types.h"

extern "C" {
/// Makes the GPU of the calling thread's PE current; 0: it has none. Else gshmemi_leave_gpu brings
/// back what was current before.
GSHMEM_EXPORT int gshmemi_enter_gpu(void);
GSHMEM_EXPORT void gshmemi_leave_gpu(void);
}

namespace gshmem::detail {

/// For as long as the object lives.
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

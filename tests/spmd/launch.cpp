// Launches: whose GPU they are on.
#include "tests/spmd/spmd.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// The C API finds its PE by the GPU that the kernel runs on.
struct PeOfKernel {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log) const {
    SPMD_EQ(log, gshmem_my_pe(), ctx.my_pe());
  }
};

}  // namespace

SPMD_TEST(launches_are_on_the_pe_s_gpu_whichever_is_current) {
  if (!pe.c_api_in_kernels()) return;
#if defined(__CUDACC__)
  int mine = 0, count = 0;
  if (pe.on_gpu() && cudaGetDevice(&mine) == cudaSuccess &&
      cudaGetDeviceCount(&count) == cudaSuccess && count > 1) {
    const int other = (mine + 1) % count;
    SPMD_CHECK(pe, cudaSetDevice(other) == cudaSuccess);
    pe.run({}, PeOfKernel{});
    int now = -1;
    SPMD_CHECK(pe, cudaGetDevice(&now) == cudaSuccess);
    SPMD_EQ(pe, now, other);
    SPMD_CHECK(pe, cudaSetDevice(mine) == cudaSuccess);
  }
#endif
  pe.run({}, PeOfKernel{});
}

// Launches: whose GPU they are on, and which are refused.
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

#if defined(__CUDACC__)
__global__ void do_nothing() {}

/// A collective launch of that block is an error on all PEs.
void refused(Pe& pe, const void* func, dim3 block) {
  constexpr int kInvalid = GSHMEMX_ERROR_INVALID_VALUE;
  int grid = 77;
  SPMD_EQ(pe, gshmemx_collective_launch(func, 1, block, nullptr, 0, nullptr), kInvalid);
  SPMD_EQ(pe, gshmemx_collective_launch_query_gridsize(func, block, nullptr, 0, &grid), kInvalid);
  SPMD_EQ(pe, grid, 77);
}
#endif

}  // namespace

SPMD_TEST(wrong_collective_launches_are_errors_on_all_pes) {
#if defined(__CUDACC__)
  const void* const kernel = reinterpret_cast<const void*>(do_nothing);
  refused(pe, nullptr, 32);
  refused(pe, kernel, 0);
  refused(pe, kernel, {32, 33, 1});
  SPMD_EQ(pe, gshmemx_collective_launch_query_gridsize(kernel, 32, nullptr, 0, nullptr),
          static_cast<int>(GSHMEMX_ERROR_INVALID_VALUE));
  gshmemx_collective_launch_attr_t attr{};
  attr.cuda_config.gridDim = attr.cuda_config.blockDim = 1;
  cudaLaunchAttribute attributes[1]{};
  for (const unsigned count : {1u, 33u}) {
    attr.cuda_config.attrs = count == 1 ? nullptr : attributes;  // no attributes, or too many
    attr.cuda_config.numAttrs = count;
    SPMD_EQ(pe, gshmemx_collective_launch_attr(&attr, kernel, nullptr),
            static_cast<int>(GSHMEMX_ERROR_INVALID_VALUE));
  }
#else
  pe.skip("compiled without nvcc");
#endif
}

SPMD_TEST(launches_are_on_the_pe_s_gpu_for_any_current_gpu) {
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

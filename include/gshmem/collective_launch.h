// Launching a kernel on all PEs at once, for kernels that wait for each other: every block of every
// PE is resident, or nobody launches. C++ linkage and inline, because a kernel belongs to the CUDA
// runtime of the unit that compiles it. Included by gshmem.h under nvcc; other C++ units that
// include it need the CUDA runtime's headers and library. The GPU is that of the calling thread's
// PE, whichever is the thread's current one; a stream must be one of that GPU.
#pragma once

#include "gpu_scope.h"
#include "gshmem.h"

#include <cuda_runtime.h>

#include <cstdarg>
#include <cstdio>

extern "C" {
/// First nonzero `mine` in PE order, the same on all PEs; collective. `why` goes to the log of the
/// PE it belongs to. A status of its own when PEs are missing (GSHMEM_TIMEOUT).
GSHMEM_EXPORT int gshmemi_agree_status(const char* call, int mine, const char* why);
/// PEs on the calling PE's GPU; 0 in CPU mode, -1 when the library is not initialized.
GSHMEM_EXPORT int gshmemi_pes_on_gpu(void);
}

namespace gshmem::collective_launch {

/// A status and, where it is an error, what happened.
struct Outcome {
  int status = GSHMEMX_SUCCESS;
  char why[240] = "";
};

__attribute__((format(printf, 3, 4))) inline void fail(Outcome* outcome, int status,
                                                       const char* format, ...) {
  outcome->status = status;
  va_list values;
  va_start(values, format);
  (void)std::vsnprintf(outcome->why, sizeof(outcome->why), format, values);
  va_end(values);
}

/// True when `error` is none; else the outcome names it, and the runtime forgets it.
inline bool check(Outcome* outcome, const char* what, cudaError_t error) {
  if (error == cudaSuccess) return true;
  (void)cudaGetLastError();
  fail(outcome, GSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED, "%s: %s", what, cudaGetErrorString(error));
  return false;
}

/// Blocks of `func` that this PE can have resident at once. PEs that share a GPU get equal parts.
inline int largest_grid(Outcome* outcome, const void* func, dim3 block, std::size_t shared) {
  const int pes = gshmemi_pes_on_gpu();
  if (pes < 0) {
    fail(outcome, GSHMEMX_ERROR_NOT_INITIALIZED, "the library is not initialized");
    return 0;
  }
  if (pes == 0) {
    fail(outcome, GSHMEMX_ERROR_NOT_SUPPORTED, "the PE runs in CPU mode");
    return 0;
  }
  const unsigned long long threads = 1ull * block.x * block.y * block.z;
  if (!func || threads == 0 || threads > 1024) {
    fail(outcome, GSHMEMX_ERROR_INVALID_VALUE, "func = %p, blockDims = (%u, %u, %u)", func, block.x,
         block.y, block.z);
    return 0;
  }
  int device = 0, cooperative = 0, processors = 0, per_processor = 0;
  if (!check(outcome, "cudaGetDevice", cudaGetDevice(&device)) ||
      !check(outcome, "cudaDeviceGetAttribute(CooperativeLaunch)",
             cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device)) ||
      !check(outcome, "cudaDeviceGetAttribute(MultiProcessorCount)",
             cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device)) ||
      !check(outcome, "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
             cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, func,
                                                           static_cast<int>(threads), shared))) {
    return 0;
  }
  if (!cooperative) {
    fail(outcome, GSHMEMX_ERROR_NOT_SUPPORTED, "GPU %d has no cooperative launch", device);
    return 0;
  }
  return per_processor * processors / pes;
}

}  // namespace gshmem::collective_launch

/// `*gridsize` becomes the largest number of blocks that gshmemx_collective_launch accepts for this
/// kernel on this PE. Not collective.
inline int gshmemx_collective_launch_query_gridsize(const void* func, dim3 blockDims,
                                                    void** /*args*/, size_t sharedMem,
                                                    int* gridsize) {
  const gshmem::detail::GpuScope scope;
  gshmem::collective_launch::Outcome outcome;
  const int largest = gshmem::collective_launch::largest_grid(&outcome, func, blockDims, sharedMem);
  if (outcome.status == GSHMEMX_SUCCESS && !gridsize)
    gshmem::collective_launch::fail(&outcome, GSHMEMX_ERROR_INVALID_VALUE,
                                    "argument gridsize is null");
  if (outcome.status == GSHMEMX_SUCCESS) {
    *gridsize = largest;
  } else {
    std::fprintf(stderr, "gshmem: gshmemx_collective_launch_query_gridsize: %s\n", outcome.why);
  }
  return outcome.status;
}

/// Collective. Launches `func` on all PEs as a cooperative kernel (grid-wide synchronization is
/// legal in it). A grid of 0 is the largest that fits, one-dimensional; each PE chooses its own.
/// Errors: the same on all PEs, GSHMEMX_ERROR_INVALID_VALUE when the grid does not fit on one of
/// them, then no PE launches; GSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED when CUDA refuses. Order: as
/// any kernel in `stream`; the call does not wait for it.
inline int gshmemx_collective_launch(const void* func, dim3 gridDims, dim3 blockDims, void** args,
                                     size_t sharedMem, cudaStream_t stream) {
  namespace launch = gshmem::collective_launch;
  constexpr const char* kCall = "gshmemx_collective_launch";
  const gshmem::detail::GpuScope scope;
  launch::Outcome outcome;
  const int largest = launch::largest_grid(&outcome, func, blockDims, sharedMem);
  unsigned long long blocks = 1ull * gridDims.x * gridDims.y * gridDims.z;
  if (blocks == 0) {
    blocks = static_cast<unsigned long long>(largest);
    gridDims = dim3(static_cast<unsigned>(largest), 1, 1);
  }
  if (outcome.status == GSHMEMX_SUCCESS &&
      (blocks == 0 || blocks > static_cast<unsigned long long>(largest))) {
    launch::fail(&outcome, GSHMEMX_ERROR_INVALID_VALUE,
                 "argument gridDims = (%u, %u, %u) is %llu blocks; %d blocks of (%u, %u, %u) "
                 "threads with %zu bytes of shared memory fit at once",
                 gridDims.x, gridDims.y, gridDims.z, blocks, largest, blockDims.x, blockDims.y,
                 blockDims.z, sharedMem);
  }
  const int agreed = gshmemi_agree_status(kCall, outcome.status, outcome.why);
  if (agreed != GSHMEMX_SUCCESS) return agreed;
  launch::check(&outcome, "cudaLaunchCooperativeKernel",
                cudaLaunchCooperativeKernel(func, gridDims, blockDims, args, sharedMem, stream));
  // Again, so that nobody waits in a kernel for a PE that has none.
  return gshmemi_agree_status(kCall, outcome.status, outcome.why);
}

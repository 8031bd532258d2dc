// Launches a kernel on all PEs at once, for kernels that wait for each other: either every block of
// every PE is resident, or no PE launches. The functions have C++ linkage and are inline, because a
// kernel belongs to the CUDA runtime of the unit that compiles it. Included by gshmem.h under nvcc;
// other C++ units that include it need the CUDA runtime's headers and library. The GPU is that of
// the calling thread's PE, whatever the thread's current GPU is; a stream must belong to that GPU.
#pragma once

#include "gpu_scope.h"
#include "gshmem.h"

#include <cuda_runtime.h>

#include <cstdarg>
#include <cstdio>

extern "C" {
/// Collective: returns the first nonzero `mine` in PE order, the same on all PEs. `why` is logged
/// on its PE. Returns a status of its own when PEs are missing (GSHMEM_TIMEOUT).
GSHMEM_EXPORT int gshmemi_agree_status(const char* call, int mine, const char* why);
/// Returns the number of PEs on the calling PE's GPU; 0 in CPU mode, -1 when the library is not
/// initialized.
GSHMEM_EXPORT int gshmemi_pes_on_gpu(void);
}

namespace gshmem::collective_launch {

constexpr unsigned kMostAttributes = 32;

/// A status and, if it is an error, its reason.
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

/// Returns true when there is no `error`; otherwise stores it in the outcome, and clears it in the
/// runtime.
inline bool check(Outcome* outcome, const char* what, cudaError_t error) {
  if (error == cudaSuccess) return true;
  (void)cudaGetLastError();
  fail(outcome, GSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED, "%s: %s", what, cudaGetErrorString(error));
  return false;
}

/// Returns how many blocks of `func` this PE can have resident at once. PEs that share a GPU get
/// equal parts.
inline int largest_grid(Outcome* outcome, const void* func, dim3 block, std::size_t shared) {
  const int pes = gshmemi_pes_on_gpu();
  const unsigned long long threads = 1ull * block.x * block.y * block.z;
  if (pes < 0) {
    fail(outcome, GSHMEMX_ERROR_NOT_INITIALIZED, "the library is not initialized");
  } else if (!func) {
    fail(outcome, GSHMEMX_ERROR_INVALID_VALUE, "argument func is null");
  } else if (threads == 0 || threads > 1024) {
    fail(outcome, GSHMEMX_ERROR_INVALID_VALUE,
         "argument blockDims = (%u, %u, %u) is %llu threads; allowed are 1 to 1024", block.x,
         block.y, block.z, threads);
  } else if (pes == 0) {
    fail(outcome, GSHMEMX_ERROR_NOT_SUPPORTED, "the PE runs in CPU mode");
  }
  if (outcome->status != GSHMEMX_SUCCESS) return 0;
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

/// Makes `config` a cooperative launch from `given`, with `attributes`, and chooses a grid.
inline void prepare(Outcome* outcome, const cudaLaunchConfig_t* given, const void* func,
                    cudaLaunchConfig_t* config, cudaLaunchAttribute* attributes) {
  if (!given) return fail(outcome, GSHMEMX_ERROR_INVALID_VALUE, "argument attr is null");
  if (given->numAttrs > kMostAttributes || (given->numAttrs > 0 && !given->attrs)) {
    return fail(outcome, GSHMEMX_ERROR_INVALID_VALUE, "attr->cuda_config.attrs = %p, numAttrs = %u",
                static_cast<const void*>(given->attrs), given->numAttrs);
  }
  *config = *given;
  config->attrs = attributes;
  config->numAttrs = 0;
  for (unsigned i = 0; i < given->numAttrs; ++i) {
    if (given->attrs[i].id != cudaLaunchAttributeCooperative)
      attributes[config->numAttrs++] = given->attrs[i];
  }
  attributes[config->numAttrs].id = cudaLaunchAttributeCooperative;
  attributes[config->numAttrs++].val.cooperative = 1;

  dim3& grid = config->gridDim;
  const dim3 block = config->blockDim;
  const int largest = largest_grid(outcome, func, block, config->dynamicSmemBytes);
  if (outcome->status != GSHMEMX_SUCCESS) return;
  if (1ull * grid.x * grid.y * grid.z == 0) grid = dim3(static_cast<unsigned>(largest), 1, 1);
  const unsigned long long blocks = 1ull * grid.x * grid.y * grid.z;
  if (blocks > 0 && blocks <= static_cast<unsigned long long>(largest)) return;
  fail(
      outcome, GSHMEMX_ERROR_INVALID_VALUE,
      "argument gridDims = (%u, %u, %u) is %llu blocks; %d blocks of (%u, %u, %u) threads with %zu "
      "bytes of shared memory fit at once",
      grid.x, grid.y, grid.z, blocks, largest, block.x, block.y, block.z, config->dynamicSmemBytes);
}

inline int launch(const char* call, const cudaLaunchConfig_t* given, const void* func,
                  void** args) {
  const gshmem::detail::GpuScope scope;
  Outcome outcome;
  cudaLaunchConfig_t config{};
  cudaLaunchAttribute attributes[kMostAttributes + 1];
  prepare(&outcome, given, func, &config, attributes);
  const int agreed = gshmemi_agree_status(call, outcome.status, outcome.why);
  if (agreed != GSHMEMX_SUCCESS) return agreed;
  check(&outcome, "cudaLaunchKernelExC", cudaLaunchKernelExC(&config, func, args));
  // The PEs agree again, so that no PE waits in a kernel for a PE that has none.
  return gshmemi_agree_status(call, outcome.status, outcome.why);
}

}  // namespace gshmem::collective_launch

/// Sets `*gridsize` to the largest number of blocks that gshmemx_collective_launch accepts for this
/// kernel on this PE. Not collective.
inline int gshmemx_collective_launch_query_gridsize(const void* func, dim3 blockDims,
                                                    void** /*args*/, size_t sharedMem,
                                                    int* gridsize) {
  const gshmem::detail::GpuScope scope;
  gshmem::collective_launch::Outcome outcome;
  int largest = 0;
  if (gridsize) {
    largest = gshmem::collective_launch::largest_grid(&outcome, func, blockDims, sharedMem);
  } else {
    gshmem::collective_launch::fail(&outcome, GSHMEMX_ERROR_INVALID_VALUE,
                                    "argument gridsize is null");
  }
  if (outcome.status == GSHMEMX_SUCCESS) {
    *gridsize = largest;
  } else {
    std::fprintf(stderr, "gshmem[-] ERROR: gshmemx_collective_launch_query_gridsize: %s\n",
                 outcome.why);
  }
  return outcome.status;
}

/// Collective. Launches `func` on all PEs as a cooperative kernel (grid-wide synchronization is
/// legal in it). A grid of 0 is the largest that fits, one-dimensional; each PE chooses its own.
/// Errors are the same on all PEs: GSHMEMX_ERROR_INVALID_VALUE when the grid does not fit on one of
/// them, and then no PE launches; GSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED when CUDA refuses. Order:
/// as any kernel in `stream`; the call does not wait for it.
inline int gshmemx_collective_launch(const void* func, dim3 gridDims, dim3 blockDims, void** args,
                                     size_t sharedMem, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = gridDims;
  config.blockDim = blockDims;
  config.dynamicSmemBytes = sharedMem;
  config.stream = stream;
  return gshmem::collective_launch::launch("gshmemx_collective_launch", &config, func, args);
}

/// A launch for which CUDA has attributes. The type has NVSHMEM's name.
typedef struct gshmemx_collective_launch_attr {
  cudaLaunchConfig_t cuda_config;
} gshmemx_collective_launch_attr_t;
/// Does what gshmemx_collective_launch does, with at most 32 attributes of the launch. The kernel
/// is cooperative, whatever the attributes say. Errors: also GSHMEMX_ERROR_INVALID_VALUE for a null
/// `attr`.
inline int gshmemx_collective_launch_attr(const gshmemx_collective_launch_attr_t* attr,
                                          const void* func, void** args) {
  return gshmem::collective_launch::launch("gshmemx_collective_launch_attr",
                                           attr ? &attr->cuda_config : nullptr, func, args);
}

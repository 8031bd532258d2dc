// Launching a kernel on all PEs at once, for kernels that wait for each other: every block of every
// PE is resident, or nobody launches. The kernel is one of a unit that nvcc has compiled with
// gshmem.h; the library launches it by the CUDA runtime of that unit. Included by gshmem.h under
// nvcc; other units that include it need CUDA's headers, and no library of CUDA's. The GPU is that
// of the calling thread's PE, whichever is the thread's current one; a stream must be one of that
// GPU. C11, C++17, CUDA.
#pragma once

#include "types.h"

#include <driver_types.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- Collective launch ---------------------------------------------------------------------------
/// `*gridsize` becomes the largest number of blocks that gshmemx_collective_launch accepts for this
/// kernel on this PE. Not collective. Returns a status, and leaves `*gridsize` where it is an
/// error.
GSHMEM_EXPORT int gshmemx_collective_launch_query_gridsize(const void* func, dim3 blockDims,
                                                           void** args, size_t sharedMem,
                                                           int* gridsize);

/// Collective. Launches `func` on all PEs as a cooperative kernel (grid-wide synchronization is
/// legal in it). A grid of 0 is the largest that fits, one-dimensional; each PE chooses its own.
/// Errors: the same on all PEs, GSHMEMX_ERROR_INVALID_VALUE when the grid does not fit on one of
/// them, then no PE launches; GSHMEMX_ERROR_NOT_SUPPORTED in CPU mode;
/// GSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED when CUDA refuses. Order: as any kernel in `stream`; the
/// call does not wait for it.
GSHMEM_EXPORT int gshmemx_collective_launch(const void* func, dim3 gridDims, dim3 blockDims,
                                            void** args, size_t sharedMem, cudaStream_t stream);

/// NVSHMEM's type of that name, and with its tag: a launch of CUDA's with attributes.
typedef struct nvshmemx_collective_launch_attr {
  cudaLaunchConfig_t cuda_config;
} gshmemx_collective_launch_attr_t;
/// Does what gshmemx_collective_launch does, with at most 32 attributes of the launch. The kernel
/// is cooperative whatever they say. Errors: also GSHMEMX_ERROR_INVALID_VALUE for a null `attr`.
GSHMEM_EXPORT int gshmemx_collective_launch_attr(const gshmemx_collective_launch_attr_t* attr,
                                                 const void* func, void** args);

#ifdef __cplusplus
}
#endif

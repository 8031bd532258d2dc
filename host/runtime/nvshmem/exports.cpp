// The functions of nvshmem.h as symbols, for programs and loaders that look them up by name.
#include <gshmem/types.h>

#define NVSHMEM_HOST_FN extern "C" GSHMEM_EXPORT
#include <gshmem/compat/nvshmem.h>

// Those whose types CUDA's headers have, where the library is built without.
#if !defined(CUDART_VERSION)
#include "host/runtime/api/launch.h"

NVSHMEM_HOST_FN int nvshmemx_collective_launch(const void* func, gshmem::Dim3 grid,
                                               gshmem::Dim3 block, void** args,
                                               std::size_t shared_bytes, void* stream) {
  return gshmemx_collective_launch(func, grid, block, args, shared_bytes, stream);
}
NVSHMEM_HOST_FN int nvshmemx_collective_launch_attr(const gshmem::LaunchConfig* attr,
                                                    const void* func, void** args) {
  return gshmemx_collective_launch_attr(attr, func, args);
}
NVSHMEM_HOST_FN int nvshmemx_collective_launch_query_gridsize(const void* func, gshmem::Dim3 block,
                                                              void** args, std::size_t shared_bytes,
                                                              int* gridsize) {
  return gshmemx_collective_launch_query_gridsize(func, block, args, shared_bytes, gridsize);
}
#endif

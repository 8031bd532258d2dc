// The functions of nvshmem.h as symbols, for programs and loaders that look them up by name.
#include <gshmem/types.h>

#include <cstdio>

#define NVSHMEM_HOST_FN extern "C" GSHMEM_EXPORT
#include <gshmem/compat/nvshmem.h>

// These functions use types of CUDA's headers. Where the library is built without CUDA, its own
// types replace them.
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

// NVIDIA's libnvshmem_device.a uses these names. Some libraries contain it, such as PyTorch's
// libtorch_nvshmem.so, which every `import torch` loads. With these symbols they can be loaded, and
// may make host calls. Their kernels need another device state, so the init that would set it
// fails.
extern "C" {
struct GshmemLibraryVersion {
  int major, minor, patch;
};

extern GSHMEM_EXPORT const int nvshmem_selected_device_transport;
const int nvshmem_selected_device_transport = 0;

GSHMEM_EXPORT int nvshmemid_init_status(void) { return gshmemx_init_status(); }

GSHMEM_EXPORT int nvshmemid_hostlib_init_attr(int, int*, unsigned int, void*,
                                              GshmemLibraryVersion device,
                                              void (*)(void**, void**)) {
  std::fprintf(
      stderr,
      "gshmem: this program has device code of NVIDIA's NVSHMEM %d.%d.%d linked in, which "
      "gshmem cannot serve: compile it with gshmem's headers; for PyTorch, use the backend "
      "GSHMEM of gshmem.torch\n",
      device.major, device.minor, device.patch);
  return GSHMEMX_ERROR_NOT_SUPPORTED;
}

GSHMEM_EXPORT void nvshmemid_hostlib_finalize(void*, void*) {}
}

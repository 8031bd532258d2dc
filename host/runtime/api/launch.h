// The collective launches of include/gshmem/collective_launch.h as the library sees them. The
// library is built without CUDA's headers, so its own types have the layouts of CUDA's. Included by
// the code that exports the functions, and by their tests.
#pragma once

#include <gshmem/types.h>

#include <cstddef>

namespace gshmem {

struct Dim3 {
  unsigned x, y, z;
};
struct LaunchAttribute {
  unsigned id;
  unsigned reserved;
  alignas(8) unsigned char value[64];
};
struct LaunchConfig {
  Dim3 grid, block;
  std::size_t shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56);

}  // namespace gshmem

extern "C" {
GSHMEM_EXPORT int gshmemx_collective_launch(const void* func, gshmem::Dim3 grid, gshmem::Dim3 block,
                                            void** args, std::size_t shared_bytes, void* stream);
GSHMEM_EXPORT int gshmemx_collective_launch_attr(const gshmem::LaunchConfig* attr, const void* func,
                                                 void** args);
GSHMEM_EXPORT int gshmemx_collective_launch_query_gridsize(const void* func, gshmem::Dim3 block,
                                                           void** args, std::size_t shared_bytes,
                                                           int* gridsize);
}

// Memory of a program on a GPU: allocations of cuMemCreate that are mapped one after the other.
// Included by tests of registered memory, of spmd on GPUs and of the libcuda double.
#pragma once

#include "host/base/cuda_driver.h"

#include <cstddef>

namespace gshmem::test {

inline constexpr std::size_t kPiece = 2 << 20;

/// Maps `pieces` times kPiece bytes of GPU `device`. Errors: GSHMEMX_ERROR_CUDA.
inline CUdeviceptr map_pieces(int device, std::size_t pieces,
                              unsigned handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
  const CudaDriver* const cuda = CudaDriver::get();
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(handle_types);
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr first = 0;
  GSHMEM_CU(cuda, cuMemAddressReserve, &first, pieces * kPiece, 0, 0, 0);
  for (CUdeviceptr at = first; at < first + pieces * kPiece; at += kPiece) {
    CUmemGenericAllocationHandle handle = 0;
    GSHMEM_CU(cuda, cuMemCreate, &handle, kPiece, &properties, 0);
    GSHMEM_CU(cuda, cuMemMap, at, kPiece, 0, handle, 0);
    GSHMEM_CU(cuda, cuMemRelease, handle);
    GSHMEM_CU(cuda, cuMemSetAccess, at, kPiece, &access, 1);
  }
  return first;
}
inline void unmap_pieces(CUdeviceptr first, std::size_t pieces) {
  const CudaDriver* const cuda = CudaDriver::get();
  for (std::size_t i = 0; i < pieces; ++i) (void)cuda->cuMemUnmap(first + i * kPiece, kPiece);
  (void)cuda->cuMemAddressFree(first, pieces * kPiece);
}

}  // namespace gshmem::test

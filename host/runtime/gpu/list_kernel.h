// The requests of the host to the kernel of lists of pieces; shared by list_ops.cpp and
// list_kernel.cu. The pieces are parameters of the kernel. So a graph keeps them, and no memory has
// to live until the kernel has ended. The maximum number of pieces depends on the version of
// cuda.h. The pieces of longer lists are in GPU memory, unless a graph has to keep them.
#pragma once

#include "host/runtime/gpu/service.h"

#include <gshmem/abi/state.h>
#include <gshmem/types.h>

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace gshmem {

/// Bytes of the parameters of a kernel (CUDA programming guide, function parameters): larger ones
/// need a toolkit and a driver of CUDA 12.1.
inline constexpr int kLargeParametersSince = 12010;
inline constexpr std::size_t kParameterBytes = CUDA_VERSION >= kLargeParametersSince ? 32764 : 4096;
inline constexpr std::uint32_t kMostPieces = static_cast<std::uint32_t>(
    (kParameterBytes - sizeof(abi::DeviceState) - sizeof(ServiceRequest) - 32) /
    sizeof(gshmemx_piece_t));

struct ListRequest {
  ServiceRequest service;       ///< `call.source` and `call.bytes` are not used
  const gshmemx_piece_t* list;  ///< in GPU memory; null: `pieces`
  std::uint32_t count;
  /// For a mapped PE, `bytes` of a piece counts those of the pieces before it, too.
  gshmemx_piece_t pieces[kMostPieces];
};
static_assert(offsetof(ListRequest, service) == 0);
static_assert(sizeof(abi::DeviceState) + 16 + sizeof(ListRequest) <= kParameterBytes);

/// The most pieces in GPU memory that one launch moves.
inline constexpr std::uint32_t kMostUploaded = (1 << 20) / sizeof(gshmemx_piece_t);

inline constexpr char kListKernel[] = "gshmem_list";
inline constexpr unsigned kListThreads = 1024;     ///< threads of a block, for a mapped PE
inline constexpr unsigned kPostingThreads = 128;   ///< threads of the block that posts
inline constexpr std::uint64_t kListShare = 4096;  ///< bytes that are enough for a warp

}  // namespace gshmem

/// The compiled kernel (fatbin of list_kernel.cu), embedded at build time.
extern "C" const unsigned char gshmem_list_kernel_image[];

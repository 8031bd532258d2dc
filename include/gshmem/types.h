// Element types of the C API as C, C++ and CUDA see them. The two 16-bit floating types are CUDA's
// where CUDA compiles, and plain 16-bit carriers of the same layout elsewhere: the API only moves
// them. And what marks the functions of the library.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GSHMEM_EXPORT __attribute__((visibility("default")))

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
typedef __half gshmem_half_t;
typedef __nv_bfloat16 gshmem_bfloat16_t;
#else
typedef struct gshmem_half {
  uint16_t bits;
} gshmem_half_t;
typedef struct gshmem_bfloat16 {
  uint16_t bits;
} gshmem_bfloat16_t;
#endif

/// A team of PEs: one of gshmem_predefined_team.
typedef int32_t gshmem_team_t;

/// A communication context (OpenSHMEM 1.5, section 9.5): GSHMEM_CTX_DEFAULT, or of
/// gshmem_ctx_create.
typedef int32_t gshmem_ctx_t;
/// Work queues, one to each PE: of gshmemx_qp_create, or one of gshmemx_qp_handle. It is a context
/// too: every gshmem_ctx_ function takes it.
typedef int32_t gshmemx_qp_handle_t;

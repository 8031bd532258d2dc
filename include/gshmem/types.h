// Element types of the C API for C, C++ and CUDA. The two 16-bit floating types are CUDA's if CUDA
// compiles, and otherwise plain 16-bit carriers of the same layout, since the API only moves them;
// the same holds for CUDA's double2. Also the macros that mark the functions of the library.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GSHMEM_EXPORT __attribute__((visibility("default")))

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
typedef __half gshmem_half_t;
typedef __nv_bfloat16 gshmem_bfloat16_t;
typedef double2 gshmem_double2_t;
#else
typedef struct gshmem_half {
  uint16_t bits;
} gshmem_half_t;
typedef struct gshmem_bfloat16 {
  uint16_t bits;
} gshmem_bfloat16_t;
typedef struct __attribute__((aligned(16))) gshmem_double2 {
  double x, y;
} gshmem_double2_t;
#endif

/// Complex numbers: C's own, and in C++ the same bytes. A call takes them by the pointer types,
/// which in C++ are made from pointers to C's and to the standard library's numbers, too.
/// (GSHMEM_PLAIN_COMPLEX: they are plain pointers, for functions that other languages call.)
#if defined(__cplusplus)
#include "complex.hpp"
typedef struct gshmem_complexf {
  float re, im;
} gshmem_complexf_t;
typedef struct gshmem_complexd {
  double re, im;
} gshmem_complexd_t;
#else
typedef float _Complex gshmem_complexf_t;
typedef double _Complex gshmem_complexd_t;
#endif
#if defined(__cplusplus) && !defined(GSHMEM_PLAIN_COMPLEX)
typedef gshmem::detail::ComplexPointer<gshmem_complexf_t, float> gshmem_complexf_dest_t;
typedef gshmem::detail::ComplexPointer<gshmem_complexd_t, double> gshmem_complexd_dest_t;
typedef gshmem::detail::ComplexPointer<const gshmem_complexf_t, float> gshmem_complexf_source_t;
typedef gshmem::detail::ComplexPointer<const gshmem_complexd_t, double> gshmem_complexd_source_t;
#else
typedef gshmem_complexf_t* gshmem_complexf_dest_t;
typedef gshmem_complexd_t* gshmem_complexd_dest_t;
typedef const gshmem_complexf_t* gshmem_complexf_source_t;
typedef const gshmem_complexd_t* gshmem_complexd_source_t;
#endif

/// A team of PEs (OpenSHMEM 1.5, section 9.4): one of gshmem_predefined_team, or a result of
/// gshmem_team_split_strided and _2d.
typedef int32_t gshmem_team_t;

/// A result of gshmemx_team_get_uniqueid.
typedef uint64_t gshmemx_team_uniqueid_t;
/// The purpose of a team. A call reads the fields that its mask names.
typedef struct gshmem_team_config {
  int version;
  int num_contexts;  ///< number of contexts of the team that the program needs at a time
  uint64_t uniqueid;
  char reserved[48];
} gshmem_team_config_t;
#define GSHMEM_TEAM_CONFIG_VERSION ((2 << 16) + 64) /* as NVSHMEM's: number and size */
#define GSHMEM_TEAM_CONFIG_INITIALIZER                \
  {                                                   \
    GSHMEM_TEAM_CONFIG_VERSION, -1, UINT64_MAX, { 0 } \
  }

/// A communication context (OpenSHMEM 1.5, section 9.5): GSHMEM_CTX_DEFAULT, or a result of
/// gshmem_ctx_create.
typedef int32_t gshmem_ctx_t;
typedef struct gshmem_ctx_session_config {
  size_t total_ops;
} gshmem_ctx_session_config_t;
/// Work queues, one to each PE: a result of gshmemx_qp_create, or one of gshmemx_qp_handle. It is
/// also a context: every gshmem_ctx_ function accepts it.
typedef int32_t gshmemx_qp_handle_t;

/// A piece of a list (gshmemx_putv, gshmemx_getv): `bytes` bytes from `source` to `dest`.
typedef struct gshmemx_piece {
  void* dest;
  const void* source;
  size_t bytes;
} gshmemx_piece_t;

/// A region of calls, and its attributes: gshmemx_region_start and _start_block. As in NVSHMEM.
typedef uint64_t gshmemx_region_handle_t;
typedef struct gshmemx_region_attrs {
  uint32_t hints;  ///< or-ed gshmemx_region_hint
  char reserved[60];
} gshmemx_region_attrs_t;
#define GSHMEMX_REGION_ATTRS_INITIALIZER \
  {                                      \
    0, { 0 }                             \
  }

// The names of NVSHMEM for programs written for it: the OpenSHMEM part, prefix nvshmem_, and at the
// end nvshmemx.h. Every function is an inline call of the gshmem_ function of the same meaning
// (gshmem.h documents them). Values of constants, except the vendor's name, and sizes of structs
// are NVSHMEM's. NVSHMEM's headers include others, such as cuda.h, and so does this one. C11, C++17
// and CUDA; included as <nvshmem.h>, through the target gshmem::nvshmem or from
// PREFIX/lib/gshmem/nvshmem/include.
#pragma once

// Units that have the functions for kernels inline have only NVSHMEM's names of them.
#if (defined(__CUDACC__) && !(defined(GSHMEM_PLAIN_FUNCTIONS) && GSHMEM_PLAIN_FUNCTIONS)) || \
    (defined(__cplusplus) && defined(GSHMEM_CHECK_ORDER))
#define GSHMEM_WITHOUT_DEVICE_FUNCTIONS
#endif
#include <gshmem/gshmem.h>

#if !defined(__CUDACC_RTC__)
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__cplusplus)
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <tuple>
#endif
#if __has_include(<cuda.h>) && __has_include(<cuda_runtime.h>)
#include <cuda.h>
#include <cuda_runtime.h>
#endif
#endif
#if defined(__CUDACC__)
#include <cooperative_groups.h>
#endif

#ifdef __cplusplus
#define NVSHMEM_STATIC_ASSERT(...) static_assert(__VA_ARGS__)
#else
#define NVSHMEM_STATIC_ASSERT _Static_assert
#endif
// This is internal to NVSHMEM, but the utilities of its perftests, from which programs are derived,
// print by it.
#define NVSHMEMI_ERROR_PRINT(...)                                    \
  do {                                                               \
    fprintf(stderr, "%s:%s:%d: ", __FILE__, __FUNCTION__, __LINE__); \
    fprintf(stderr, __VA_ARGS__);                                    \
    fprintf(stderr, "\n");                                           \
  } while (0)

// --- Constants -----------------------------------------------------------------------------------
typedef enum {
  NVSHMEM_CMP_EQ = GSHMEM_CMP_EQ,
  NVSHMEM_CMP_NE = GSHMEM_CMP_NE,
  NVSHMEM_CMP_GT = GSHMEM_CMP_GT,
  NVSHMEM_CMP_LE = GSHMEM_CMP_LE,
  NVSHMEM_CMP_LT = GSHMEM_CMP_LT,
  NVSHMEM_CMP_GE = GSHMEM_CMP_GE,
  NVSHMEM_CMP_SENTINEL = 0x7fffffff
} nvshmemx_cmp_type_t;
typedef enum {
  NVSHMEM_SIGNAL_SET = GSHMEM_SIGNAL_SET,
  NVSHMEM_SIGNAL_ADD = GSHMEM_SIGNAL_ADD
} nvshmemx_signal_op_t;
typedef enum {
  NVSHMEM_THREAD_SINGLE = GSHMEM_THREAD_SINGLE,
  NVSHMEM_THREAD_FUNNELED = GSHMEM_THREAD_FUNNELED,
  NVSHMEM_THREAD_SERIALIZED = GSHMEM_THREAD_SERIALIZED,
  NVSHMEM_THREAD_MULTIPLE = GSHMEM_THREAD_MULTIPLE,
  NVSHMEM_THREAD_TYPE_SENTINEL = 0x7fffffff
} nvshmemx_thread_support_t;
// The last ones are teams that NVSHMEM keeps for itself, or has for multicast. They do not exist
// here. Queries treat them as NVSHMEM_TEAM_INVALID; other calls refuse them.
typedef enum {
  NVSHMEM_TEAM_INVALID = GSHMEM_TEAM_INVALID,
  NVSHMEM_TEAM_WORLD = GSHMEM_TEAM_WORLD,
  NVSHMEM_TEAM_WORLD_INDEX = GSHMEM_TEAM_WORLD,
  NVSHMEM_TEAM_SHARED = GSHMEM_TEAM_SHARED,
  NVSHMEM_TEAM_SHARED_INDEX = GSHMEM_TEAM_SHARED,
  NVSHMEMX_TEAM_NODE = GSHMEMX_TEAM_NODE,
  NVSHMEM_TEAM_NODE_INDEX = GSHMEMX_TEAM_NODE,
  NVSHMEMX_TEAM_SAME_MYPE_NODE = GSHMEMX_TEAM_SAME_MYPE_NODE,
  NVSHMEM_TEAM_SAME_MYPE_NODE_INDEX = GSHMEMX_TEAM_SAME_MYPE_NODE,
  NVSHMEM_TEAM_SAME_GPU_INDEX = 4,
  NVSHMEM_TEAM_GPU_LEADERS_INDEX = 5,
  NVSHMEM_TEAM_MC_SHARED = 6,
  NVSHMEM_TEAM_MC_SHARED_INDEX = 6,
  NVSHMEM_TEAMS_MIN = 7,
  NVSHMEM_TEAM_INDEX_MAX = 0x7fffffff
} nvshmem_team_id_t;
typedef gshmem_team_t nvshmem_team_t, nvshmemx_team_t;
typedef gshmem_team_config_t nvshmem_team_config_t, nvshmem_team_config_v1, nvshmem_team_config_v2;
typedef gshmemx_team_uniqueid_t nvshmemx_team_uniqueid_t;
#define NVSHMEM_TEAM_UNIQUID_INITIALIZER UINT64_MAX
NVSHMEM_STATIC_ASSERT(sizeof(nvshmem_team_config_t) == 64, "size of NVSHMEM's team_config_t");
#define NVSHMEM_TEAM_CONFIG_INITIALIZER GSHMEM_TEAM_CONFIG_INITIALIZER
#define NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS 1L
#define NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID 2L

// The OpenSHMEM specification that NVSHMEM declares to implement; nvshmem_info_get_version returns
// it.
#define NVSHMEM_MAJOR_VERSION 1
#define NVSHMEM_MINOR_VERSION 3
#define NVSHMEM_MAX_NAME_LEN GSHMEM_MAX_NAME_LEN
#define NVSHMEM_VENDOR_STRING GSHMEM_VENDOR_STRING
// The NVSHMEM release whose interface this is: programs select code by it. CMake's package and the
// name of the library's file use it.
#define NVSHMEM_VENDOR_MAJOR_VERSION 3
#define NVSHMEM_VENDOR_MINOR_VERSION 8
#define NVSHMEM_VENDOR_PATCH_VERSION 0
#define NVSHMEM_VENDOR_PACKAGE_VERSION 0
#define NVSHMEM_VENDOR_VERSION                                                 \
  (NVSHMEM_VENDOR_MAJOR_VERSION * 10000 + NVSHMEM_VENDOR_MINOR_VERSION * 100 + \
   NVSHMEM_VENDOR_PATCH_VERSION)

// --- Functions -----------------------------------------------------------------------------------
// Functions that exist on the host only, and those that device code has too. host/runtime/nvshmem/
// defines both itself: there they are what libnvshmem_host exports.
#if defined(NVSHMEM_HOST_FN)
#define NVSHMEM_FN NVSHMEM_HOST_FN
#else
#define NVSHMEM_HOST_FN static inline
#endif
#if defined(NVSHMEM_FN)
#elif defined(__CUDACC__)
#define NVSHMEM_FN GSHMEM_FN
#if !defined(GSHMEM_PLAIN_FUNCTIONS) || !GSHMEM_PLAIN_FUNCTIONS
#define NVSHMEM_LAZY template <int = 0>
#endif
#else
#define NVSHMEM_FN static inline
#endif

#if !defined(__cplusplus)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"  // in C a void function returns the call of another
#endif

#if !defined(NVSHMEM_LAZY)
#define NVSHMEM_LAZY
#endif
// Defines the function NAME of a row of functions.def.
#if defined(GSHMEM_WITHOUT_DEVICE_FUNCTIONS)
#define NVSHMEM_FUNCTION(NAME, KIND, RET, STEM, PARAMS, NAMES, CALL) \
  GSHMEM_DEVICE_FUNCTION(NAME, KIND, RET, STEM, PARAMS, CALL)
#else
#define NVSHMEM_FUNCTION(NAME, KIND, RET, STEM, PARAMS, NAMES, CALL) \
  GSHMEM_WHEN_CALLED NVSHMEM_FN RET NAME PARAMS { return GSHMEM_NAME_##KIND(STEM) NAMES; }
#endif
#define NVSHMEM_EXPAND_STD(RET, STEM, ...) \
  NVSHMEM_FUNCTION(nvshmem_##STEM, STD, RET, STEM, __VA_ARGS__)
#define NVSHMEM_EXPAND_EXT(...)
#define NVSHMEM_EXPAND_SHM(...)
#define NVSHMEM_EXPAND_OWN(...)
#define NVSHMEM_EXPAND_QP(...)
// NVSHMEM has no contexts.
#define NVSHMEM_EXPAND_CTX_STD(...)
#define NVSHMEM_EXPAND_CTX_EXT(...)
#define NVSHMEM_EXPAND_CTX_ALL(...)
#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) \
  NVSHMEM_EXPAND_##KIND(RET, STEM, PARAMS, NAMES, CALL)
#define GSHMEM_LAZY NVSHMEM_LAZY
#define GSHMEM_BLOCKS 0
#include <gshmem/functions.def>
#undef NVSHMEM_EXPAND_STD
#undef NVSHMEM_EXPAND_EXT
#undef NVSHMEM_EXPAND_SHM
#undef NVSHMEM_EXPAND_OWN
#undef NVSHMEM_EXPAND_QP
#undef NVSHMEM_EXPAND_CTX_STD
#undef NVSHMEM_EXPAND_CTX_EXT
#undef NVSHMEM_EXPAND_CTX_ALL

#define NVSHMEM_HOST(RET, STEM, PARAMS, NAMES) \
  NVSHMEM_HOST_FN RET nvshmem_##STEM PARAMS { return gshmem_##STEM NAMES; }
#if defined(__cplusplus)
extern "C" {
#endif
/// Tells the library that NVSHMEM's name of init was called: kernels without a GPU are then an
/// error.
void gshmemi_by_nvshmem(void);
#if defined(__cplusplus)
}
#endif
NVSHMEM_HOST_FN void nvshmem_init(void) {
  gshmemi_by_nvshmem();
  gshmem_init();
}
NVSHMEM_HOST_FN int nvshmem_init_thread(int requested, int* provided) {
  gshmemi_by_nvshmem();
  return gshmem_init_thread(requested, provided);
}
NVSHMEM_HOST(void, query_thread, (int* provided), (provided))
NVSHMEM_HOST(void, finalize, (void), ())
NVSHMEM_HOST(void, global_exit, (int status), (status))
NVSHMEM_HOST(void, info_get_name, (char* name), (name))
NVSHMEM_HOST(void*, malloc, (size_t size), (size))
NVSHMEM_HOST(void*, calloc, (size_t count, size_t size), (count, size))
NVSHMEM_HOST(void*, align, (size_t alignment, size_t size), (alignment, size))
NVSHMEM_HOST(void, free, (void* ptr), (ptr))
NVSHMEM_HOST(int, team_split_strided,
             (nvshmem_team_t parent_team, int PE_start, int PE_stride, int PE_size,
              const nvshmem_team_config_t* config, long config_mask, nvshmem_team_t* new_team),
             (parent_team, PE_start, PE_stride, PE_size, config, config_mask, new_team))
NVSHMEM_HOST(int, team_split_2d,
             (nvshmem_team_t parent_team, int xrange, const nvshmem_team_config_t* xaxis_config,
              long xaxis_mask, nvshmem_team_t* xaxis_team,
              const nvshmem_team_config_t* yaxis_config, long yaxis_mask,
              nvshmem_team_t* yaxis_team),
             (parent_team, xrange, xaxis_config, xaxis_mask, xaxis_team, yaxis_config, yaxis_mask,
              yaxis_team))
NVSHMEM_HOST(void, team_destroy, (nvshmem_team_t team), (team))
#undef NVSHMEM_HOST
NVSHMEM_HOST_FN void nvshmem_team_get_config(nvshmem_team_t team, nvshmem_team_config_t* config) {
  (void)gshmem_team_get_config(
      team, NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS | NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, config);
}
#define nvshmem_sync nvshmem_team_sync
NVSHMEM_HOST_FN void nvshmem_info_get_version(int* major, int* minor) {
  if (major) *major = NVSHMEM_MAJOR_VERSION;
  if (minor) *minor = NVSHMEM_MINOR_VERSION;
}

#if !defined(__cplusplus)
#pragma GCC diagnostic pop
#endif

#include "nvshmemx.h"

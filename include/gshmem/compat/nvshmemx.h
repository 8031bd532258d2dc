// The names of NVSHMEM for programs written for it: the extensions, prefix nvshmemx_. Each of
// nvshmem.h and this header includes the other; the opening comment there also applies here.
#pragma once

#include "nvshmem.h"

// --- Constants and types -------------------------------------------------------------------------
enum nvshmemx_status {
#define NVSHMEM_STATUS_ENUM(name, value, text) NVSHMEMX_##name = value,
  GSHMEM_STATUS_TABLE(NVSHMEM_STATUS_ENUM)
#undef NVSHMEM_STATUS_ENUM
      NVSHMEMX_ERROR_SENTINEL = 0x7fffffff
};
enum {
  NVSHMEMX_INIT_THREAD_PES = GSHMEMX_INIT_THREAD_PES,
  NVSHMEMX_INIT_WITH_MPI_COMM = GSHMEMX_INIT_WITH_MPI_COMM,
  NVSHMEMX_INIT_WITH_SHMEM = 4,  // not supported: nvshmemx_init_attr reports it
  NVSHMEMX_INIT_WITH_UNIQUEID = GSHMEMX_INIT_WITH_UNIQUEID,
  NVSHMEMX_INIT_MAX = -0x7fffffff - 1
};
typedef enum {
  NVSHMEMX_INIT_STATUS_NOT_INITIALIZED = GSHMEMX_INIT_STATUS_NOT_INITIALIZED,
  NVSHMEMX_INIT_STATUS_IS_BOOTSTRAPPED = GSHMEMX_INIT_STATUS_IS_BOOTSTRAPPED,
  NVSHMEMX_INIT_STATUS_IS_INITIALIZED = GSHMEMX_INIT_STATUS_IS_INITIALIZED,
  NVSHMEMX_INIT_STATUS_LIMITED_MPG = GSHMEMX_INIT_STATUS_LIMITED_MPG,
  NVSHMEMX_INIT_STATUS_FULL_MPG = GSHMEMX_INIT_STATUS_FULL_MPG,
  // These are the same values by the names that NVSHMEM's manual uses.
  NVSHMEM_STATUS_NOT_INITIALIZED = GSHMEMX_INIT_STATUS_NOT_INITIALIZED,
  NVSHMEM_STATUS_IS_BOOTSTRAPPED = GSHMEMX_INIT_STATUS_IS_BOOTSTRAPPED,
  NVSHMEM_STATUS_IS_INITIALIZED = GSHMEMX_INIT_STATUS_IS_INITIALIZED,
  NVSHMEM_STATUS_LIMITED_MPG = GSHMEMX_INIT_STATUS_LIMITED_MPG,
  NVSHMEM_STATUS_FULL_MPG = GSHMEMX_INIT_STATUS_FULL_MPG,
  NVSHMEM_STATUS_INVALID = 0x7fffffff
} nvshmemx_init_status_t;

typedef enum {
  NVSHMEMX_QP_HOST = GSHMEMX_QP_HOST,
  NVSHMEMX_QP_DEFAULT = GSHMEMX_QP_DEFAULT,
  NVSHMEMX_QP_ANY = GSHMEMX_QP_ANY,
  NVSHMEMX_QP_ALL = GSHMEMX_QP_ALL
} nvshmemx_qp_handle_index_t;
typedef enum {
  NVSHMEM_PE_INVALID = -1,
  NVSHMEMX_PE_ANY = GSHMEMX_PE_ANY,
  NVSHMEMX_PE_ALL = GSHMEMX_PE_ALL
} nvshmem_pe_index_t;

typedef gshmemx_qp_handle_t nvshmemx_qp_handle_t;
typedef gshmemx_uniqueid_t nvshmemx_uniqueid_t, nvshmemx_uniqueid_v1;
typedef gshmemx_uniqueid_args_t nvshmemx_uniqueid_args_t, nvshmemx_uniqueid_args_v1;
typedef gshmemx_init_args_t nvshmemx_init_args_t, nvshmemx_init_args_v1, nvshmemx_init_args_v2;
typedef gshmemx_init_attr_t nvshmemx_init_attr_t, nvshmemx_init_attr_v1, nvshmemx_init_attr_v2;
NVSHMEM_STATIC_ASSERT(sizeof(nvshmemx_uniqueid_t) == 128, "size of NVSHMEM's nvshmemx_uniqueid_t");
NVSHMEM_STATIC_ASSERT(sizeof(nvshmemx_uniqueid_args_t) == 24,
                      "size of NVSHMEM's nvshmemx_uniqueid_args_t");
NVSHMEM_STATIC_ASSERT(sizeof(nvshmemx_init_args_t) == 128,
                      "size of NVSHMEM's nvshmemx_init_args_t");
NVSHMEM_STATIC_ASSERT(sizeof(nvshmemx_init_attr_t) == 144,
                      "size of NVSHMEM's nvshmemx_init_attr_t");
#define NVSHMEMX_UNIQUEID_INITIALIZER GSHMEMX_UNIQUEID_INITIALIZER
#define NVSHMEMX_UNIQUEID_ARGS_INITIALIZER GSHMEMX_UNIQUEID_ARGS_INITIALIZER
#define NVSHMEMX_INIT_ATTR_INITIALIZER GSHMEMX_INIT_ATTR_INITIALIZER
#define NVSHMEM_INIT_ATTR_V2_IDENTIFIER GSHMEMX_INIT_ATTR_VERSION
#define NVSHMEM_INIT_ARGS_V2_IDENTIFIER GSHMEMX_INIT_ATTR_VERSION
// With attributes of another version, nvshmemx_init_attr reads only the fields that `flags`
// selects.
#define NVSHMEM_INIT_ATTR_V1_IDENTIFIER ((1 << 16) + 144)
#define nvshmemx_init_init_attr_ver_only(attr)        \
  do {                                                \
    (attr).version = NVSHMEM_INIT_ATTR_V1_IDENTIFIER; \
  } while (0)
#define NVSHMEMX_INIT_ARGS_INITIALIZER                                                       \
  {                                                                                          \
    NVSHMEM_INIT_ATTR_V1_IDENTIFIER, NVSHMEMX_UNIQUEID_ARGS_INITIALIZER, -1, -1, 0, 0, { 0 } \
  }
#define NVSHMEMX_INIT_ARGS_V2_INITIALIZER                                                    \
  {                                                                                          \
    NVSHMEM_INIT_ARGS_V2_IDENTIFIER, NVSHMEMX_UNIQUEID_ARGS_INITIALIZER, -1, -1, 0, 0, { 0 } \
  }
#define NVSHMEMX_INIT_ATTR_V1_INITIALIZER \
  { NVSHMEM_INIT_ATTR_V1_IDENTIFIER, 0, NVSHMEMX_INIT_ARGS_INITIALIZER }

// Regions and shared memory: the parts that NVSHMEM 3.7 and 3.8 have names for.
typedef enum {
  NVSHMEMX_REGION_HINT_NONE = GSHMEMX_REGION_HINT_NONE,
  NVSHMEMX_REGION_HINT_BATCH_RMA = GSHMEMX_REGION_HINT_BATCH_RMA
} nvshmemx_region_hint_t;
typedef gshmemx_region_handle_t nvshmemx_region_handle_t;
#define nvshmemx_region_attrs gshmemx_region_attrs  // the tag of the struct
typedef struct nvshmemx_region_attrs nvshmemx_region_attrs_t;
#define NVSHMEMX_REGION_ATTRS_RESERVED_BYTES 60
#define NVSHMEMX_REGION_ATTRS_INITIALIZER GSHMEMX_REGION_ATTRS_INITIALIZER
typedef enum {
  NVSHMEMX_SMEM_RECOMMENDED = GSHMEMX_SMEM_RECOMMENDED,
  NVSHMEMX_SMEM_MINIMUM = GSHMEMX_SMEM_MINIMUM,
  NVSHMEMX_SMEM_BARRIERS_ONLY = GSHMEMX_SMEM_BARRIERS_ONLY,
  NVSHMEMX_SMEM_AMOUNT_MAX = 0x7fffffff
} nvshmemx_smem_amount_t;
typedef enum {
  NVSHMEMX_TMA_DISABLE = 0,
  NVSHMEMX_TMA_ENABLE = 1,
  NVSHMEMX_TMA_FORCE = 2,
  NVSHMEMX_TMA_POLICY_MAX = 0x7fffffff
} nvshmemx_tma_policy_t;

// --- Functions -----------------------------------------------------------------------------------
#if !defined(__cplusplus)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"  // in C a void function returns the call of another
#endif

#define NVSHMEM_EXPAND_STD(...)
#define NVSHMEM_EXPAND_EXT(RET, STEM, ...) \
  NVSHMEM_FUNCTION(nvshmemx_##STEM, EXT, RET, STEM, __VA_ARGS__)
#define NVSHMEM_EXPAND_SHM(...)
#define NVSHMEM_EXPAND_OWN(...)
#define NVSHMEM_EXPAND_QP(RET, STEM, ...) \
  NVSHMEM_FUNCTION(nvshmemx_qp_##STEM, QP, RET, STEM, __VA_ARGS__)
#define NVSHMEM_EXPAND_CTX_STD(...)
#define NVSHMEM_EXPAND_CTX_EXT(...)
#define NVSHMEM_EXPAND_CTX_ALL(...)
#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) \
  NVSHMEM_EXPAND_##KIND(RET, STEM, PARAMS, NAMES, CALL)
#define GSHMEM_LAZY NVSHMEM_LAZY
#define GSHMEM_BLOCKS 0
#include <gshmem/functions.def>
#undef NVSHMEM_LAZY
#undef NVSHMEM_FUNCTION
#undef NVSHMEM_EXPAND_STD
#undef NVSHMEM_EXPAND_EXT
#undef NVSHMEM_EXPAND_SHM
#undef NVSHMEM_EXPAND_OWN
#undef NVSHMEM_EXPAND_QP
#undef NVSHMEM_EXPAND_CTX_STD
#undef NVSHMEM_EXPAND_CTX_EXT
#undef NVSHMEM_EXPAND_CTX_ALL

#define NVSHMEM_EXPAND_EXT(RET, STEM, PARAMS, NAMES)       \
  NVSHMEM_HOST_FN RET nvshmemx_##STEM##_on_stream PARAMS { \
    return gshmemx_##STEM##_on_stream NAMES;               \
  }
#define NVSHMEM_EXPAND_OWN(RET, STEM, PARAMS, NAMES)
#define GSHMEM_STREAM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) \
  NVSHMEM_EXPAND_##KIND(RET, STEM, PARAMS, NAMES)
#include <gshmem/stream_functions.def>
#undef NVSHMEM_EXPAND_EXT
#undef NVSHMEM_EXPAND_OWN

#define NVSHMEM_HOST(RET, STEM, PARAMS, NAMES) \
  NVSHMEM_HOST_FN RET nvshmemx_##STEM PARAMS { return gshmemx_##STEM NAMES; }
NVSHMEM_HOST_FN int nvshmemx_init_attr(unsigned int flags, nvshmemx_init_attr_t* attr) {
  gshmemi_by_nvshmem();
  return gshmemx_init_attr(flags, attr);
}
NVSHMEM_HOST(int, init_status, (void), ())
NVSHMEM_HOST(const char*, status_string, (int status), (status))
NVSHMEM_HOST(int, get_uniqueid, (nvshmemx_uniqueid_t * uniqueid), (uniqueid))
NVSHMEM_HOST(int, set_attr_uniqueid_args,
             (int myrank, int nranks, const nvshmemx_uniqueid_t* uniqueid,
              nvshmemx_init_attr_t* attr),
             (myrank, nranks, uniqueid, attr))
NVSHMEM_HOST(int, set_attr_mpi_comm_args, (void* mpi_comm, nvshmemx_init_attr_t* attr),
             (mpi_comm, attr))
NVSHMEM_HOST(int, buffer_register, (void* addr, size_t length), (addr, length))
NVSHMEM_HOST(int, buffer_unregister, (void* addr), (addr))
NVSHMEM_HOST(void, buffer_unregister_all, (void), ())
NVSHMEM_HOST(void*, buffer_register_symmetric, (void* buf_ptr, size_t size, int flags),
             (buf_ptr, size, flags))
NVSHMEM_HOST(void*, buffer_register_symmetric_at_preferred_address,
             (void* buf_ptr, size_t size, void* preferred_addr, int flags),
             (buf_ptr, size, preferred_addr, flags))
NVSHMEM_HOST(int, buffer_unregister_symmetric, (void* mmap_ptr, size_t size), (mmap_ptr, size))
NVSHMEM_HOST(int, team_get_uniqueid, (nvshmemx_team_uniqueid_t * uniqueid), (uniqueid))
NVSHMEM_HOST(int, team_init,
             (nvshmem_team_t * team, nvshmem_team_config_t* config, long config_mask, int npes,
              int pe_idx_in_team),
             (team, config, config_mask, npes, pe_idx_in_team))
NVSHMEM_HOST(int, qp_create, (int num_qps, nvshmemx_qp_handle_t** out_qp_array),
             (num_qps, out_qp_array))
NVSHMEM_HOST(int, region_start,
             (nvshmemx_region_handle_t * handle, const nvshmemx_region_attrs_t* attrs),
             (handle, attrs))
NVSHMEM_HOST(int, region_stop, (nvshmemx_region_handle_t region), (region))
NVSHMEM_HOST(int, cumodule_init, (struct CUmod_st * module), (module))
NVSHMEM_HOST(int, cumodule_finalize, (struct CUmod_st * module), (module))
NVSHMEM_HOST(int, culibrary_init, (struct CUlib_st * library), (library))
NVSHMEM_HOST(int, culibrary_finalize, (struct CUlib_st * library), (library))
#undef NVSHMEM_HOST

// In NVSHMEM this initializes only the library's host part; here there is no other part.
NVSHMEM_HOST_FN int nvshmemx_hostlib_init_attr(unsigned int flags, nvshmemx_init_attr_t* attr) {
  return nvshmemx_init_attr(flags, attr);
}
NVSHMEM_HOST_FN void nvshmemx_hostlib_finalize(void) { gshmem_finalize(); }

/// Returns the version that NVSHMEM_VENDOR_*_VERSION define.
NVSHMEM_HOST_FN void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  if (major) *major = NVSHMEM_VENDOR_MAJOR_VERSION;
  if (minor) *minor = NVSHMEM_VENDOR_MINOR_VERSION;
  if (patch) *patch = NVSHMEM_VENDOR_PATCH_VERSION;
}

#if !defined(__cplusplus)
#pragma GCC diagnostic pop
#endif

// NVSHMEM's headers bring CUDA's, where there are some (nvshmem.h).
#if !defined(__CUDACC_RTC__) && defined(CUDART_VERSION)
#include <gshmem/collective_launch.h>
NVSHMEM_HOST_FN int nvshmemx_collective_launch(const void* func, dim3 gridDims, dim3 blockDims,
                                               void** args, size_t sharedMem, cudaStream_t stream) {
  return gshmemx_collective_launch(func, gridDims, blockDims, args, sharedMem, stream);
}
typedef gshmemx_collective_launch_attr_t nvshmemx_collective_launch_attr_t;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // g++: the function has the name of its struct's tag
NVSHMEM_HOST_FN int nvshmemx_collective_launch_attr(const nvshmemx_collective_launch_attr_t* attr,
                                                    const void* func, void** args) {
  return gshmemx_collective_launch_attr(attr, func, args);
}
#pragma GCC diagnostic pop
NVSHMEM_HOST_FN int nvshmemx_collective_launch_query_gridsize(const void* func, dim3 blockDims,
                                                              void** args, size_t sharedMem,
                                                              int* gridsize) {
  return gshmemx_collective_launch_query_gridsize(func, blockDims, args, sharedMem, gridsize);
}
#endif

// Tensors are for all units. Calls of tiles are for units that nvcc compiles (they take 0.3 s).
#if defined(__cplusplus) && !defined(__CUDACC_RTC__)
#if defined(__CUDACC__)
#include <gshmem/tile.hpp>
#else
#include <gshmem/tensor.hpp>
#endif
using gshmemx::ConstInt;
namespace nvshmemx {
using namespace gshmemx;
}
#endif
#undef GSHMEM_WITHOUT_DEVICE_FUNCTIONS

// The device API as functions with C names, for compilers that do not take the headers: NVRTC where
// a program declares what it calls, numba, Triton, or any producer of PTX, LTO-IR or bitcode.
// CMakeLists.txt lists the formats. A program links one of them with its own code by nvJitLink or
// nvlink, loads the result, and calls gshmemx_cumodule_init or gshmemx_culibrary_init.
// docs/guide.md explains how to link it.
#define GSHMEM_PLAIN_COMPLEX
#include <gshmem/constants.h>
#include <gshmem/types.h>

#include <gshmem/device/api/strided_blocks.h>
#include <gshmem/device/api/register_bound_kernels.h>
#include <gshmem/device/api/api_context.h>

#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) \
  extern "C" __device__ RET GSHMEM_NAME_##KIND(STEM) PARAMS { \
    GSHMEM_CALLER_##KIND(GSHMEM_NAME_##KIND(STEM), RET);      \
    return ::gshmem::api::CALL;                               \
  }
#include <gshmem/functions.def>

// A name of NVSHMEM's library, by which JAX and others recognize a module that wants
// nvshmemx_cumodule_init. It is `used`, so that linkers which drop unused symbols keep it.
extern "C" __attribute__((used))
__constant__ int nvshmemi_device_lib_version_d[3] = {NVSHMEM_MAJOR, NVSHMEM_MINOR, NVSHMEM_PATCH};

// These are the same functions under NVSHMEM's names, except for contexts, which it does not have,
// and functions that only OpenSHMEM or gshmem have.
#define NVSHMEM_NAMED(NAME, RET, PARAMS, CALL) \
  extern "C" __device__ RET NAME PARAMS { return CALL; }
#define NVSHMEM_STD(RET, STEM, PARAMS, NAMES) \
  NVSHMEM_NAMED(nvshmem_##STEM, RET, PARAMS, gshmem_##STEM NAMES)
#define NVSHMEM_EXT(RET, STEM, PARAMS, NAMES) \
  NVSHMEM_NAMED(nvshmemx_##STEM, RET, PARAMS, gshmemx_##STEM NAMES)
#define NVSHMEM_QP(RET, STEM, PARAMS, NAMES) \
  NVSHMEM_NAMED(nvshmemx_qp_##STEM, RET, PARAMS, gshmemx_qp_##STEM NAMES)
#define NVSHMEM_SHM(...)
#define NVSHMEM_OWN(...)
#define NVSHMEM_CTX_STD(...)
#define NVSHMEM_CTX_EXT(...)
#define NVSHMEM_CTX_ALL(...)
#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) \
  NVSHMEM_##KIND(RET, STEM, PARAMS, NAMES)
#include <gshmem/functions.def>

// Compares the generated headers with the tables: the declaration of a function in gshmem.h must
// match its row. An overload, a missing or another prototype does not compile. Also compiled by
// nvcc, for which the functions are inline, collectives are templates, and gshmem.h leaves their
// prototypes out.
#include <gshmem/blocks.h>
#include <gshmem/functions.h>
#include <gshmem/gshmem.h>

#include "tests/api/is_a.h"

#include <type_traits>

#if defined(__CUDACC__)
#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) \
  static_assert(is_a<RET(*) PARAMS>(&GSHMEM_NAME_##KIND(STEM)), #STEM);
#else
#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) \
  static_assert(std::is_same_v<decltype(GSHMEM_NAME_##KIND(STEM)), RET PARAMS>, #STEM);
#endif
#include <gshmem/functions.def>

#define GSHMEM_STREAM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) \
  static_assert(std::is_same_v<decltype(gshmemx_##STEM##_on_stream), RET PARAMS>, #STEM);
#include <gshmem/stream_functions.def>

// Plain functions, with nvcc only if they are requested.
#if !defined(__CUDACC__) || defined(GSHMEM_PLAIN_FUNCTIONS)
static_assert(std::is_same_v<decltype(&gshmemx_float_broadcast_block),
                             int (*)(gshmem_team_t, float*, const float*, size_t, int)>);
static_assert(std::is_same_v<decltype(&gshmem_float_p), void (*)(float*, float, int)>);
#endif

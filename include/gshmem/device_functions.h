// The functions of functions.def for units that have them inline. Included by gshmem.h, at its end.
#pragma once

#include "gshmem.h"

#if defined(GSHMEM_INLINE_FUNCTIONS)
#define GSHMEM_BLOCKS 0  // those of blocks.h: they would add a tenth to nvcc's time for this header
#if defined(GSHMEM_PLAIN_FUNCTIONS) && GSHMEM_PLAIN_FUNCTIONS
#include <gshmem/device/api/register_bound_kernels.h>
#else
#define GSHMEM_LAZY template <int = 0>
#endif
#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) \
  GSHMEM_DEVICE_FUNCTION(GSHMEM_NAME_##KIND(STEM), KIND, RET, STEM, PARAMS, CALL)
#include "functions.def"
#endif

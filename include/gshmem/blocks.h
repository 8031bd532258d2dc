// ibput and ibget of OpenSHMEM 1.6 for units that nvcc compiles: in kernels and on the host. Other
// units have them from gshmem.h. blocks.def says what they do.
#pragma once

#include "gshmem.h"

#if defined(__CUDACC__)
#include <gshmem/device/blocks.h>
#define GSHMEM_BLOCKS 1
#define GSHMEM_LAZY template <int = 0>
#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL)        \
  GSHMEM_WHEN_CALLED GSHMEM_FN RET GSHMEM_NAME_##KIND(STEM) PARAMS { \
    GSHMEM_CALLER_##KIND(GSHMEM_NAME_##KIND(STEM), RET);             \
    return ::gshmem::api::CALL;                                      \
  }
#include "functions.def"
#endif

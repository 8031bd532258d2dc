// ibput and ibget of OpenSHMEM 1.6 for units that nvcc compiles: in kernels and on the host. Other
// units have them from gshmem.h. blocks.def documents them.
#pragma once

#include "gshmem.h"

#if defined(__CUDACC__)
#include <gshmem/device/api/strided_blocks.h>
#define GSHMEM_BLOCKS 1
#define GSHMEM_LAZY template <int = 0>
#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) \
  GSHMEM_DEVICE_FUNCTION(GSHMEM_NAME_##KIND(STEM), KIND, RET, STEM, PARAMS, CALL)
#include "functions.def"
#endif

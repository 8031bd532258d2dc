// The exported functions of functions.def: the device library's code, compiled for host threads.
#include <gshmem/gshmem.h>

#include <gshmem/device/api/strided_blocks.h>
#include <gshmem/device/api/api_context.h>

#include "host/runtime/api/long_double.h"

#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) \
  extern "C" RET GSHMEM_NAME_##KIND(STEM) PARAMS {            \
    GSHMEM_CALLER_##KIND(GSHMEM_NAME_##KIND(STEM), RET);      \
    return ::gshmem::api::CALL;                               \
  }
#include <gshmem/functions.def>

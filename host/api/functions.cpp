// The exported functions of functions.def: the device library's code, compiled for host threads.
#include <gshmem/gshmem.h>

#include <gshmem/device/api.h>

#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL)                 \
  extern "C" RET GSHMEM_NAME_##KIND(STEM) PARAMS {                            \
    const ::gshmem::api::Caller call =                                        \
        ::gshmem::api::ambient_caller(GSHMEM_TEXT(GSHMEM_NAME_##KIND(STEM))); \
    return ::gshmem::api::CALL;                                               \
  }
#include <gshmem/functions.def>

// GSHMEM_FUNCTION for the files that export a section of functions.def: the device library's code,
// compiled for host threads.
#pragma once

#include <gshmem/gshmem.h>

#include <gshmem/device/api/api_context.h>

#define GSHMEM_FUNCTION(KIND, RET, STEM, PARAMS, NAMES, CALL) \
  extern "C" RET GSHMEM_NAME_##KIND(STEM) PARAMS {            \
    GSHMEM_CALLER_##KIND(GSHMEM_NAME_##KIND(STEM), RET);      \
    return ::gshmem::api::CALL;                               \
  }

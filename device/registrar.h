// How a translation unit's copy of the device state gets filled: a static object of the unit hands
// the library a function, compiled in this unit so that it uses this unit's CUDA runtime and
// symbol. gshmem_init calls all of them with the PE's GPU current. Included by gshmem.h under nvcc
// only.
#pragma once

#include "state.h"

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

extern "C" {
/// Copies `bytes` bytes into this unit's device state on the current GPU; 0 or a cudaError_t.
typedef int (*gshmemi_upload_t)(const void* state, unsigned long bytes);
/// Adds an upload function; PEs of this process that are initialized already are uploaded at once.
__attribute__((visibility("default"))) void gshmemi_register_upload(gshmemi_upload_t upload);
__attribute__((visibility("default"))) void gshmemi_unregister_upload(gshmemi_upload_t upload);
}

namespace {

int gshmemi_upload_state(const void* state, unsigned long bytes) {
  return static_cast<int>(cudaMemcpyToSymbol(gshmemi_device_state, state, bytes));
}

struct GshmemRegistrar {
  GshmemRegistrar() { gshmemi_register_upload(&gshmemi_upload_state); }
  ~GshmemRegistrar() { gshmemi_unregister_upload(&gshmemi_upload_state); }
};
[[maybe_unused]] const GshmemRegistrar gshmemi_registrar;

}  // namespace

#endif

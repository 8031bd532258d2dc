// Fills a translation unit's copy of the device state. A static object of the unit passes the
// library a function. It is compiled in this unit, so that it uses this unit's CUDA runtime and
// symbol. gshmem_init calls all of them with the PE's GPU current. Included by gshmem.h under nvcc,
// and by the library. Invariant: a unit declares the layout with which it was compiled.
#pragma once

#include "state.h"

#if !defined(__CUDACC_RTC__)
extern "C" {
/// A translation unit with kernels. New members are only added at its end.
struct gshmemi_unit {
  /// Copies `bytes` bytes into this unit's device state on the current GPU; 0 or a cudaError_t.
  int (*upload)(const void* state, unsigned long bytes);
  unsigned long state_bytes;  ///< size of its device state
  unsigned abi;               ///< kStateAbi of its headers
};
/// Adds a unit; PEs of this process that are initialized already upload their state at once.
__attribute__((visibility("default"))) void gshmemi_register_unit(const struct gshmemi_unit* unit);
__attribute__((visibility("default"))) void gshmemi_unregister_unit(
    const struct gshmemi_unit* unit);
}
#endif

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

namespace {

/// It uses a stream of its own: on the default stream it could interfere with a capture by another
/// thread.
int gshmemi_upload_state(const void* state, unsigned long bytes) {
  cudaStream_t stream = nullptr;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return static_cast<int>(error);
  error = cudaMemcpyToSymbolAsync(gshmemi_device_state, state, bytes, 0, cudaMemcpyHostToDevice,
                                  stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  (void)cudaStreamDestroy(stream);
  return static_cast<int>(error);
}

struct GshmemRegistrar {
  gshmemi_unit unit{&gshmemi_upload_state, sizeof(gshmem::abi::DeviceState),
                    gshmem::abi::kStateAbi};
  GshmemRegistrar() { gshmemi_register_unit(&unit); }
  ~GshmemRegistrar() { gshmemi_unregister_unit(&unit); }
};
[[maybe_unused]] const GshmemRegistrar gshmemi_registrar;

}  // namespace

#endif

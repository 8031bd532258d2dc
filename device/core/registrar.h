// Fills a translation unit's copy of the device state. A static object of the unit passes the
// library a function. It is compiled in this unit, so that it uses this unit's CUDA runtime and
// symbol. gshmem_init calls all of them with the PE's GPU current. Included by gshmem.h under nvcc,
// and by the library. Invariant: a unit declares the layout with which it was compiled.
#pragma once

#include "state.h"

#if !defined(__CUDACC_RTC__)
extern "C" {
/// A unit's CUDA runtime, as collective launches use it. Returned numbers are a cudaError_t, and
/// structs are CUDA's.
struct gshmemi_cuda {
  int (*knows)(const void* func);  ///< returns 0 if `func` is a kernel of this runtime
  int (*device)(int* device);
  int (*attribute)(int* value, int attribute, int device);
  int (*blocks)(int* blocks, const void* func, int threads, unsigned long shared_bytes);
  int (*launch)(const void* config, const void* func, void** args);
  const char* (*forget)(int error);  ///< clears the last error; returns the text of `error`
};
/// A translation unit with kernels. New members are only added at its end.
struct gshmemi_unit {
  /// Copies `bytes` bytes into this unit's device state on the current GPU; 0 or a cudaError_t.
  int (*upload)(const void* state, unsigned long bytes);
  unsigned long state_bytes;  ///< size of its device state
  unsigned abi;               ///< kStateAbi of its headers
  const struct gshmemi_cuda* cuda = nullptr;
};
/// Adds a unit; PEs of this process that are initialized already upload their state at once.
__attribute__((visibility("default"))) void gshmemi_register_unit(const struct gshmemi_unit* unit);
__attribute__((visibility("default"))) void gshmemi_unregister_unit(
    const struct gshmemi_unit* unit);
}
#endif

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)

namespace {

/// The upload uses its own stream: on the default stream it could interfere with a capture by
/// another thread.
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

const gshmemi_cuda gshmemi_cuda_of_unit{
    [](const void* func) {
      cudaFuncAttributes attributes;
      const cudaError_t error = cudaFuncGetAttributes(&attributes, func);
      if (error != cudaSuccess) (void)cudaGetLastError();
      return static_cast<int>(error);
    },
    [](int* device) { return static_cast<int>(cudaGetDevice(device)); },
    [](int* value, int attribute, int device) {
      return static_cast<int>(
          cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device));
    },
    [](int* blocks, const void* func, int threads, unsigned long shared_bytes) {
      return static_cast<int>(
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, func, threads, shared_bytes));
    },
    [](const void* config, const void* func, void** args) {
      return static_cast<int>(
          cudaLaunchKernelExC(static_cast<const cudaLaunchConfig_t*>(config), func, args));
    },
    [](int error) {
      (void)cudaGetLastError();
      return cudaGetErrorString(static_cast<cudaError_t>(error));
    }};

struct GshmemRegistrar {
  gshmemi_unit unit{&gshmemi_upload_state, sizeof(gshmem::abi::DeviceState), gshmem::abi::kStateAbi,
                    &gshmemi_cuda_of_unit};
  GshmemRegistrar() { gshmemi_register_unit(&unit); }
  ~GshmemRegistrar() { gshmemi_unregister_unit(&unit); }
};
[[maybe_unused]] const GshmemRegistrar gshmemi_registrar;

}  // namespace

#endif

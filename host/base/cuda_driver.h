// The CUDA driver, loaded at run time: one function pointer per line of cuda_driver.def, so that a
// program linked with gshmem starts on a machine that has no driver. Included by the sources that
// talk to GPUs, and only where the build has the toolkit's cuda.h (GSHMEM_HAVE_CUDA). Invariant: in
// a CudaDriver that load() or get() returns, every pointer is set but those of newer drivers
// (GSHMEM_CUDA_SINCE). cuInit has succeeded and there is at least one GPU.
#pragma once

#ifndef GSHMEM_HAVE_CUDA
#error "cuda_driver.h needs a build with GSHMEM_CUDA=ON; guard the include with GSHMEM_HAVE_CUDA"
#endif

#include "host/base/dynamic_library.h"
#include "host/base/error.h"

#include <cuda.h>

#include <memory>
#include <string>

namespace gshmem {

struct CudaDriver {
#define GSHMEM_CUDA_FUNCTION(name) decltype(&::name) name = nullptr;
#define GSHMEM_CUDA_SINCE(version, name, parameters) CUresult(*name) parameters = nullptr;
#include "host/base/cuda_driver.def"

  /// The driver of this process, loaded by the first call and never unloaded; null when the machine
  /// has none (or one older than CUDA 12.0) or no GPU. Threads: any.
  [[nodiscard]] static const CudaDriver* get();
  /// Why get() is null, as one line for a person; empty when it is not.
  [[nodiscard]] static const std::string& why_not();

  struct Loaded {
    std::unique_ptr<const CudaDriver> driver;
    std::string why_not;
  };
  /// What get() does once, for any library: tests pass a double of libcuda.
  [[nodiscard]] static Loaded load(const std::string& soname);

  /// Throws unless `result` is CUDA_SUCCESS: GSHMEMX_ERROR_OUT_OF_MEMORY for
  /// CUDA_ERROR_OUT_OF_MEMORY, else GSHMEMX_ERROR_CUDA, with
  /// "cuMemCreate: CUDA_ERROR_INVALID_VALUE (invalid argument)".
  void check(CUresult result, const char* call, Where where = {}) const {
    if (result != CUDA_SUCCESS) fail(result, call, where);
  }

 private:
  void resolve_all(const std::string& soname);
  void start() const;
  [[noreturn]] void fail(CUresult result, const char* call, Where where) const;

  DynamicLibrary library_;
};

/// CudaDriver::check with the driver of this process, for results that came from elsewhere.
void cu_check(CUresult result, const char* call, Where where = {});

}  // namespace gshmem

/// Calls a function of a `const CudaDriver*` and throws when it fails:
/// GSHMEM_CU(driver, cuMemAlloc, &address, bytes).
#define GSHMEM_CU(driver, function, ...) \
  ((driver)->check((driver)->function(__VA_ARGS__), #function))

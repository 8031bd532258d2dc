// The CUDA driver, loaded at run time, with one function pointer per line of cuda_driver.def. So a
// program linked with gshmem starts on a machine without a driver. Included by the sources that
// call the driver, and only where the build has the toolkit's cuda.h (GSHMEM_HAVE_CUDA). Invariant:
// in a CudaDriver that load() or get() returns, every pointer is set, except functions of newer
// drivers (GSHMEM_CUDA_SINCE). cuInit has succeeded and there is at least one GPU.
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

  /// Returns the driver of this process, which the first call loads and nothing unloads. Null when
  /// the machine has no driver, one older than CUDA 12.0, or no GPU. Threads: any.
  [[nodiscard]] static const CudaDriver* get();
  /// Returns why get() is null, as one line for a person; empty when it is not.
  [[nodiscard]] static const std::string& why_not();

  struct Loaded {
    std::unique_ptr<const CudaDriver> driver;
    std::string why_not;
  };
  /// Loads any library in the way get() does once; tests pass a double of libcuda.
  [[nodiscard]] static Loaded load(const std::string& soname);

  /// Throws unless `result` is CUDA_SUCCESS. The code is GSHMEMX_ERROR_OUT_OF_MEMORY for
  /// CUDA_ERROR_OUT_OF_MEMORY and otherwise GSHMEMX_ERROR_CUDA. The text is like "cuMemCreate:
  /// CUDA_ERROR_INVALID_VALUE (invalid argument)".
  void check(CUresult result, const char* call, Where where = {}) const {
    if (result != CUDA_SUCCESS) fail(result, call, where);
  }

 private:
  void resolve_all(const std::string& soname);
  void start() const;
  [[noreturn]] void fail(CUresult result, const char* call, Where where) const;

  DynamicLibrary library_;
};

/// CudaDriver::check with the driver of this process, for results of calls made elsewhere.
void cu_check(CUresult result, const char* call, Where where = {});

}  // namespace gshmem

/// Calls a function of a `const CudaDriver*` and throws when it fails:
/// GSHMEM_CU(driver, cuMemAlloc, &address, bytes).
#define GSHMEM_CU(driver, function, ...) \
  ((driver)->check((driver)->function(__VA_ARGS__), #function))

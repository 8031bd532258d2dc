// GPU memory of the double, and the cost of moving it. Included by the tests of this folder, which
// run with the double as libcuda.so.1 (LD_LIBRARY_PATH, see CMakeLists.txt).
#pragma once

#include "host/base/dynamic_library.h"
#include "tests/doubles/cuda_double.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>

namespace gshmem::test {

inline const DynamicLibrary& cuda_library() {
  static const DynamicLibrary library(CUDA_DOUBLE);
  return library;
}
inline CudaDouble& cuda_double() {
  return *cuda_library().function<CudaDoubleRecord>("cuda_double_record")();
}
inline void* gpu_allocate(std::size_t bytes) {
  return cuda_library().function<CudaDoubleAllocate>("cuda_double_allocate")(bytes);
}
inline std::uint8_t* gpu_view(void* memory) {
  return static_cast<std::uint8_t*>(
      cuda_library().function<CudaDoubleView>("cuda_double_view")(memory));
}

inline void fill(std::uint8_t* to, std::size_t bytes, unsigned seed) {
  std::minstd_rand random(seed);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<std::uint8_t>(random() >> 8);
}

/// Calls of the driver per MiB since the last reset.
struct Calls {
  double to_host, to_device, waits, queries, contexts;
  [[nodiscard]] double copies() const { return to_host + to_device; }
};
inline Calls calls_per_mib(const char* what, std::uint64_t bytes) {
  const CudaDouble& seen = cuda_double();
  const auto per = [&](const std::atomic<std::uint64_t>& count) {
    return static_cast<double>(count) / (static_cast<double>(bytes) / (1 << 20));
  };
  const Calls calls{per(seen.to_host), per(seen.to_device), per(seen.waits), per(seen.queries),
                    per(seen.contexts)};
  std::printf(
      "%s: per MiB %.1f copies to the host, %.1f to the GPU, %.1f waits, %.1f queries, "
      "%.1f contexts\n",
      what, calls.to_host, calls.to_device, calls.waits, calls.queries, calls.contexts);
  return calls;
}

inline void require_no_violations() {
  const std::lock_guard lock(cuda_double().mutex);
  REQUIRE(cuda_double().violations == std::vector<std::string>{});
}

}  // namespace gshmem::test

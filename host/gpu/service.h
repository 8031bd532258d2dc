// What the host asks of the service kernel; shared by host_ops.cpp and service.cu.
#pragma once

#include <gshmem/device/host_ops.h>

#include <cstdint>

namespace gshmem {

struct ServiceRequest {
  enum class Kind : std::uint32_t { kAmo, kPut, kGet, kQuiet, kQuietStatus } kind;
  int pe;
  /// Symmetric address at `pe`, and local memory of the heap (puts and gets).
  void* remote;
  void* local;
  std::uint64_t bytes;
  // Atomics
  std::uint64_t operand, cond;
  device::AmoOp op;
  std::uint32_t width;    ///< 4 or 8
  std::uint64_t* result;  ///< old value, zero-extended; host memory
};

inline constexpr char kServiceKernel[] = "gshmem_service";

}  // namespace gshmem

/// The compiled service kernels (fatbin of service.cu), embedded at build time.
extern "C" const unsigned char gshmem_service_image[];

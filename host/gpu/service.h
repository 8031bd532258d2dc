// What the host asks of the service kernel; shared by host_ops.cpp and service.cu.
#pragma once

#include <gshmem/device/host_ops.h>

#include <cstdint>

namespace gshmem {

struct ServiceAmo {
  void* target;
  std::uint64_t* result;  ///< old value, zero-extended; host memory
  std::uint64_t operand, cond;
  device::AmoOp op;
  std::uint32_t width;  ///< 4 or 8
};

inline constexpr char kServiceAmoKernel[] = "gshmem_service_amo";

}  // namespace gshmem

/// The compiled service kernels (fatbin of service.cu), embedded at build time.
extern "C" const unsigned char gshmem_service_image[];

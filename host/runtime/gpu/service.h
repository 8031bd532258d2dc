// What the host asks of the service kernel; shared by host_ops.cpp, stream_ops.cpp and service.cu.
#pragma once

#include <gshmem/device/core/call_record.h>

#include <cstdint>

namespace gshmem {

struct ServiceRequest {
  device::Call call;
  std::uint64_t* answer;  ///< in host memory; null = nobody asks
  char name[56];          ///< of the call, where the GPU reads it
};

inline constexpr char kServiceKernel[] = "gshmem_service";
inline constexpr unsigned kServiceThreads = 512;  ///< of its one block, at most

}  // namespace gshmem

/// The compiled service kernels (fatbin of service.cu), embedded at build time.
extern "C" const unsigned char gshmem_service_image[];

// The requests of the host to the service kernel; shared by host_ops.cpp, stream_ops.cpp and
// service.cu.
#pragma once

#include <gshmem/device/core/call_record.h>

#include <cstdint>

namespace gshmem {

struct ServiceRequest {
  device::Call call;
  std::uint64_t* answer;  ///< in host memory; null = not requested
  char name[56];          ///< name of the call, which the GPU can read
};

inline constexpr char kServiceKernel[] = "gshmem_service";
inline constexpr unsigned kServiceThreads = 512;  ///< maximum number of threads of its block

}  // namespace gshmem

/// The compiled service kernels (fatbin of service.cu), embedded at build time.
extern "C" const unsigned char gshmem_service_image[];

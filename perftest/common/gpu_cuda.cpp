#include "perftest/common/gpu.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <stdexcept>

namespace perftest {
namespace {

cudaDeviceProp current_device() {
  int device = 0;
  cudaDeviceProp properties{};
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("cudaGetDeviceProperties: ") + cudaGetErrorString(error));
  }
  return properties;
}

}  // namespace

std::string gpu_name() { return current_device().name; }

std::uint64_t gpu_identity() {
  const cudaDeviceProp properties = current_device();
  std::uint64_t id = 0;
  std::memcpy(&id, properties.uuid.bytes, sizeof(id));
  return id >> 12;
}

}  // namespace perftest

#include "perftest/common/gpu.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <stdexcept>

namespace perftest {
namespace {

void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

cudaDeviceProp current_device() {
  int device = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
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

Memory gpu_memory(MemorySide side, std::size_t bytes) {
  void* made = nullptr;
  if (side == MemorySide::kHost) {
    check(cudaHostAlloc(&made, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
          "cudaHostAlloc");
    std::memset(made, 0, bytes);
    return {static_cast<std::byte*>(made), [](std::byte* p) { cudaFreeHost(p); }};
  }
  check(cudaMalloc(&made, bytes), "cudaMalloc");
  Memory memory(static_cast<std::byte*>(made), [](std::byte* p) { cudaFree(p); });
  check(cudaMemset(made, 0, bytes), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return memory;
}

Stream gpu_stream(bool on_gpu) {
  cudaStream_t made = nullptr;
  if (on_gpu)
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return {made, [](CUstream_st* stream) {
            cudaStreamSynchronize(stream);
            cudaStreamDestroy(stream);
          }};
}

void copy_gpu_bytes(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cudaStreamPerThread),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(cudaStreamPerThread), "cudaStreamSynchronize");
}

}  // namespace perftest

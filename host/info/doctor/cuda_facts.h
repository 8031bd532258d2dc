// What the CUDA driver says about its GPUs, as plain data: checks do not call the driver, and tests
// write these by hand.
#pragma once

#include "host/base/nvml.h"
#include "host/gpu/gpu.h"

#include <string>
#include <vector>

namespace gshmem::info {

enum class ComputeMode { kDefault, kExclusiveProcess, kProhibited };

struct CudaGpu {
  GpuInfo info;
  bool dma_buf = false;         ///< its memory can be exported as a dma-buf
  bool fabric_handles = false;  ///< its memory can be mapped by other hosts
  nvml::GpuFabric fabric{};
  bool gpudirect_rdma = false;  ///< memory of cuMemCreate, which heaps are, may be used for RDMA
  bool orders_writes = false;   ///< of other devices to its memory
  ComputeMode mode = ComputeMode::kDefault;
  bool mps = false;  ///< processes share it through MPS
};

struct CudaFacts {
  bool built = false;    ///< this build can ask
  std::string why_none;  ///< why there is no GPU; empty when there is
  std::vector<CudaGpu> gpus;
  bool sync_memops = false;  ///< contexts can be told to complete memory calls
};

[[nodiscard]] CudaFacts cuda_facts();

}  // namespace gshmem::info

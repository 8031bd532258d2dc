// Asks the CUDA driver, through cuda.h, for the attributes that gpu_list does not have.
#include "host/tools/doctor/machine.h"

#include "host/base/error.h"

#if defined(GSHMEM_HAVE_CUDA)
#include "host/base/cuda_driver.h"
#include "transport/p2p/cuda_heap.h"

#include <cuda.h>
#endif

namespace gshmem::info {

#if defined(GSHMEM_HAVE_CUDA)
namespace {

CudaGpu facts_of(GpuInfo info) {
  const CudaDriver* const cuda = CudaDriver::get();
  CUdevice device = 0;
  GSHMEM_CU(cuda, cuDeviceGet, &device, info.device);
  // If this driver does not know an attribute, the GPU does not have it.
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    return cuda->cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
  };
  CudaGpu gpu{.info = std::move(info)};
  gpu.dma_buf = attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) != 0;
  gpu.gpudirect_rdma = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) != 0;
  gpu.orders_writes = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
                      CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
  gpu.fabric_handles = attribute(p2p::kFabricSupported) != 0;
  gpu.fabric = nvml::gpu_fabric(gpu.info.pci);
  gpu.mps = attribute(static_cast<CUdevice_attribute>(kMpsEnabled)) != 0;
  const int mode = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
  if (mode == CU_COMPUTEMODE_PROHIBITED) gpu.mode = ComputeMode::kProhibited;
  if (mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS) gpu.mode = ComputeMode::kExclusiveProcess;
  return gpu;
}

}  // namespace
#endif

CudaFacts cuda_facts() {
  CudaFacts facts;
  try {
    facts.why_none = why_no_gpu();
#if defined(GSHMEM_HAVE_CUDA)
    facts.built = true;
    if (!facts.why_none.empty()) return facts;
    facts.sync_memops = CudaDriver::get()->cuCtxSetFlags != nullptr;
    for (GpuInfo& info : gpu_list()) facts.gpus.push_back(facts_of(std::move(info)));
#endif
  } catch (const Error& error) {
    facts.why_none = error.what();
  }
  return facts;
}

}  // namespace gshmem::info

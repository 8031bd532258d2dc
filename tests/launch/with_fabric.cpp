// with_fabric N COMMAND...: runs COMMAND with GSHMEM_DEVICE=cuda if the first N GPUs can export and
// import fabric handles of each other's memory, according to the CUDA driver. Otherwise it prints
// why and exits with 77.
#include "host/base/cuda_driver.h"
#include "transport/p2p/cuda_heap.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace gshmem;

namespace {

[[noreturn]] void skip(const std::string& why) {
  std::printf("skipped: %s\n", why.c_str());
  std::fflush(stdout);
  std::exit(77);
}

/// Makes and exports one allocation with both kinds of handles. It stays until the process ends, or
/// becomes another program.
p2p::FabricHandle export_from(const CudaDriver& cuda, int device) {
  int supported = 0;
  (void)cuda.cuDeviceGetAttribute(&supported, p2p::kFabricSupported, device);
  if (supported == 0) skip("needs fabric handles, which GPU " + std::to_string(device) + " lacks");
  CUcontext context = nullptr;
  GSHMEM_CU(&cuda, cuDevicePrimaryCtxRetain, &context, device);
  GSHMEM_CU(&cuda, cuCtxSetCurrent, context);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | p2p::kFabricHandleType);
  std::size_t bytes = 0;
  GSHMEM_CU(&cuda, cuMemGetAllocationGranularity, &bytes, &properties,
            CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  CUmemGenericAllocationHandle memory = 0;
  const CUresult made = cuda.cuMemCreate(&memory, bytes, &properties, 0);
  if (made != CUDA_SUCCESS) {
    skip(
        strprintf("needs fabric handles; cuMemCreate on GPU %d: %s (IMEX channel: "
                  "/dev/nvidia-caps-imex-channels/channel0)",
                  device, p2p::cuda_text(cuda, made).c_str()));
  }
  p2p::FabricHandle handle{};
  GSHMEM_CU(&cuda, cuMemExportToShareableHandle, handle.data(), memory, p2p::kFabricHandleType, 0);
  return handle;
}

void import_on(const CudaDriver& cuda, int device, int owner, p2p::FabricHandle handle) {
  CUcontext context = nullptr;
  GSHMEM_CU(&cuda, cuDevicePrimaryCtxRetain, &context, device);
  GSHMEM_CU(&cuda, cuCtxSetCurrent, context);
  CUmemGenericAllocationHandle memory = 0;
  const CUresult imported =
      cuda.cuMemImportFromShareableHandle(&memory, handle.data(), p2p::kFabricHandleType);
  if (imported != CUDA_SUCCESS) {
    skip(
        strprintf("needs GPUs in one NVLink fabric; GPU %d does not import a fabric handle of GPU "
                  "%d: %s",
                  device, owner, p2p::cuda_text(cuda, imported).c_str()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: with_fabric N COMMAND...\n");
    return 2;
  }
  const CudaDriver* cuda = CudaDriver::get();
  if (cuda == nullptr) skip("needs GPUs: " + CudaDriver::why_not());
  try {
    int count = 0;
    const int wanted = std::atoi(argv[1]);
    GSHMEM_CU(cuda, cuDeviceGetCount, &count);
    if (count < wanted) skip(strprintf("needs %d GPUs, this machine has %d", wanted, count));
    std::vector<p2p::FabricHandle> handles;
    for (int device = 0; device < wanted; ++device) handles.push_back(export_from(*cuda, device));
    for (int device = 0; device < wanted; ++device) {
      for (int owner = 0; owner < wanted; ++owner) {
        if (owner != device || wanted == 1)
          import_on(*cuda, device, owner, handles[static_cast<std::size_t>(owner)]);
      }
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "with_fabric: %s\n", error.what());
    return 1;
  }
  setenv("GSHMEM_DEVICE", "cuda", 1);
  ::execvp(argv[2], argv + 2);
  std::perror(argv[2]);
  return 1;
}

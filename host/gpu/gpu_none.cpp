// GPU support of a build without a CUDA toolkit: there is none, and it says so.
#include "host/gpu/gpu.h"

#include "host/base/error.h"

namespace gshmem {
namespace {
constexpr char kReason[] = "this build of gshmem has no GPU support (no CUDA toolkit)";
}

std::unique_ptr<Gpu> open_gpu(int, int) { throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, kReason); }

int gpu_count(std::string* why_none) {
  if (why_none) *why_none = kReason;
  return 0;
}

std::vector<GpuInfo> gpu_list() { return {}; }

}  // namespace gshmem

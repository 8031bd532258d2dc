// GPU support of a build without a CUDA toolkit: all calls report that there is none.
#include "host/runtime/gpu/gpu.h"

#include "host/base/error.h"

namespace gshmem {
namespace {
constexpr char kReason[] = "this build of gshmem has no GPU support (no CUDA toolkit)";
}

std::unique_ptr<Gpu> open_gpu(int, int) { throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, kReason); }

std::string why_no_gpu() { return kReason; }

std::vector<GpuInfo> gpu_list() { return {}; }

}  // namespace gshmem

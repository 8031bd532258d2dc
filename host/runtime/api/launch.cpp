#include "host/runtime/api/launch.h"

#include <gshmem/device/core/registrar.h>

#include "host/runtime/api/edge.h"

#include <array>
#include <span>

using namespace gshmem;

namespace {

// These numbers are CUDA's (driver_types.h).
constexpr int kCooperativeLaunch = 95, kMultiProcessorCount = 16;  // cudaDeviceAttr
constexpr unsigned kCooperative = 2;                               // cudaLaunchAttributeID
constexpr unsigned kMostAttributes = 32;

/// Makes the GPU of the calling thread's PE the thread's current one.
class OnGpu {
 public:
  explicit OnGpu(Gpu* gpu) : gpu_(gpu) {
    if (gpu_) gpu_->push_current();
  }
  ~OnGpu() {
    if (gpu_) gpu_->pop_current();
  }
  OnGpu(const OnGpu&) = delete;

 private:
  Gpu* gpu_;
};

unsigned long long volume(const Dim3& size) { return 1ull * size.x * size.y * size.z; }

void check(const gshmemi_cuda& cuda, const char* what, int error) {
  require(error == 0, GSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED,
          [&] { return strprintf("%s: %s", what, cuda.forget(error)); });
}

/// A kernel, and the CUDA runtime of the unit that has compiled it.
struct Kernel {
  const void* func;
  const gshmemi_cuda* cuda;
};

/// Errors: those of the arguments, and GSHMEMX_ERROR_NOT_SUPPORTED in CPU mode.
Kernel kernel_of(const Pe& pe, const void* func, const Dim3& block) {
  require(func != nullptr, GSHMEMX_ERROR_INVALID_VALUE, "argument func is null");
  const unsigned long long threads = volume(block);
  require(threads > 0 && threads <= 1024, GSHMEMX_ERROR_INVALID_VALUE, [&] {
    return strprintf("argument blockDims = (%u, %u, %u) is %llu threads; allowed are 1 to 1024",
                     block.x, block.y, block.z, threads);
  });
  require(pe.gpu() != nullptr, GSHMEMX_ERROR_NOT_SUPPORTED, "the PE runs in CPU mode");
  const gshmemi_cuda* cuda = process_cuda_of(func);
  require(cuda != nullptr, GSHMEMX_ERROR_INVALID_VALUE, [&] {
    return strprintf(
        "argument func = %p is no kernel of a unit that includes gshmem.h and was compiled by nvcc",
        func);
  });
  return {func, cuda};
}

/// Returns the number of blocks that this PE can have resident at once. PEs that share a GPU get
/// equal parts.
int largest_grid(const Pe& pe, const Kernel& kernel, const Dim3& block, std::size_t shared_bytes) {
  const gshmemi_cuda& cuda = *kernel.cuda;
  int device = 0, cooperative = 0, processors = 0, per_processor = 0;
  check(cuda, "cudaGetDevice", cuda.device(&device));
  check(cuda, "cudaDeviceGetAttribute(CooperativeLaunch)",
        cuda.attribute(&cooperative, kCooperativeLaunch, device));
  check(cuda, "cudaDeviceGetAttribute(MultiProcessorCount)",
        cuda.attribute(&processors, kMultiProcessorCount, device));
  check(cuda, "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
        cuda.blocks(&per_processor, kernel.func, static_cast<int>(volume(block)), shared_bytes));
  require(cooperative != 0, GSHMEMX_ERROR_NOT_SUPPORTED,
          [&] { return strprintf("GPU %d has no cooperative launch", device); });
  return per_processor * processors / pe.paths().pes_on_gpu();
}

/// The configuration that launches `given` cooperatively, with a grid that fits.
struct Launch {
  LaunchConfig config{};
  std::array<LaunchAttribute, kMostAttributes + 1> attributes{};
  Kernel kernel{};

  void prepare(const Pe& pe, const LaunchConfig* given, const void* func) {
    require(given != nullptr, GSHMEMX_ERROR_INVALID_VALUE, "argument attr is null");
    require(given->count <= kMostAttributes && (given->count == 0 || given->attributes),
            GSHMEMX_ERROR_INVALID_VALUE, [&] {
              return strprintf("attr->cuda_config.attrs = %p, numAttrs = %u",
                               static_cast<const void*>(given->attributes), given->count);
            });
    config = *given;
    config.attributes = attributes.data();
    config.count = 0;
    for (const LaunchAttribute& one : std::span(given->attributes, given->count)) {
      if (one.id != kCooperative) attributes[config.count++] = one;
    }
    attributes[config.count].id = kCooperative;
    attributes[config.count++].value[0] = 1;  // an int

    kernel = kernel_of(pe, func, config.block);
    const int largest = largest_grid(pe, kernel, config.block, config.shared_bytes);
    if (volume(config.grid) == 0) config.grid = {static_cast<unsigned>(largest), 1, 1};
    const unsigned long long blocks = volume(config.grid);
    require(blocks > 0 && blocks <= static_cast<unsigned long long>(largest),
            GSHMEMX_ERROR_INVALID_VALUE, [&] {
              return strprintf(
                  "argument gridDims = (%u, %u, %u) is %llu blocks; %d blocks of (%u, %u, %u) "
                  "threads with %zu bytes of shared memory fit at once",
                  config.grid.x, config.grid.y, config.grid.z, blocks, largest, config.block.x,
                  config.block.y, config.block.z, config.shared_bytes);
            });
  }
};

/// Runs `step` on all PEs. Returns the first of their statuses that is an error, in PE order.
template <class Step>
int on_all(Pe& pe, const char* call, const Step& step) {
  int mine = GSHMEMX_SUCCESS;
  try {
    step();
  } catch (const Error& error) {
    GSHMEM_ERROR("%s: %s", call, error.what());
    mine = error.code();
  }
  return pe.agree_status(call, mine);
}

int launch(const char* call, const LaunchConfig* given, const void* func, void** args) {
  int agreed = GSHMEMX_SUCCESS;
  const int status = guard_status([&] {
    Pe& pe = require_pe(call);
    const OnGpu on_gpu(pe.gpu());
    Launch made;
    agreed = on_all(pe, call, [&] { made.prepare(pe, given, func); });
    if (agreed != GSHMEMX_SUCCESS) return;
    // The PEs agree again, so that no kernel waits for a PE whose launch has failed.
    agreed = on_all(pe, call, [&] {
      const gshmemi_cuda& cuda = *made.kernel.cuda;
      check(cuda, "cudaLaunchKernelExC", cuda.launch(&made.config, func, args));
    });
  });
  return status != GSHMEMX_SUCCESS ? status : agreed;
}

}  // namespace

extern "C" {

int gshmemx_collective_launch(const void* func, Dim3 grid, Dim3 block, void** args,
                              std::size_t shared_bytes, void* stream) {
  const LaunchConfig config{grid, block, shared_bytes, stream, nullptr, 0};
  return launch("gshmemx_collective_launch", &config, func, args);
}

int gshmemx_collective_launch_attr(const LaunchConfig* attr, const void* func, void** args) {
  return launch("gshmemx_collective_launch_attr", attr, func, args);
}

int gshmemx_collective_launch_query_gridsize(const void* func, Dim3 block, void** /*args*/,
                                             std::size_t shared_bytes, int* gridsize) {
  constexpr const char* kCall = "gshmemx_collective_launch_query_gridsize";
  return guard_status([&] {
    const Pe& pe = require_pe(kCall);
    require_not_null(kCall, "gridsize", gridsize);
    const OnGpu on_gpu(pe.gpu());
    try {
      *gridsize = largest_grid(pe, kernel_of(pe, func, block), block, shared_bytes);
    } catch (const Error& error) {
      throw Error(error.code(), strprintf("%s: %s", kCall, error.what()));
    }
  });
}

}  // extern "C"

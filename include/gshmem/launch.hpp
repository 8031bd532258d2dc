// gshmem::launch runs one functor with the same group objects as a CUDA kernel when the PE is on a
// GPU, and otherwise on host threads. Perftests, tests and examples are written with it. C++20.
//
// A functor is called as functor(ctx, args...) const by every thread of the launch, where ctx is a
// LaunchContext; mark operator() GSHMEM_FN.
//
// The GPU is that of the calling thread's PE, whatever the thread's current GPU is. A stream must
// belong to that GPU; CUDA refuses others.
#pragma once

#include "context.hpp"
#include "gpu_scope.h"

#include <cstring>
#include <stdexcept>
#include <string>

/// The number kStateAbi of the library's headers.
extern "C" GSHMEM_EXPORT unsigned gshmemi_abi_number(void);

namespace gshmem {

struct LaunchShape {
  unsigned blocks = 1;
  unsigned threads = 1;          ///< per block
  std::size_t shared_bytes = 0;  ///< dynamic shared memory (GPU)
  void* stream = nullptr;        ///< cudaStream_t; null = the calling thread's own on that GPU
};

/// The argument of a functor: its PE, and the position of the calling thread in the launch.
class LaunchContext : public Context {
 public:
  using Context::Context;
  GSHMEM_FN Thread thread() const { return {}; }
  GSHMEM_FN Warp warp() const { return {}; }
  GSHMEM_FN Block block() const { return {}; }
  GSHMEM_FN int thread_rank() const { return Block{}.thread_rank(); }
  GSHMEM_FN int block_size() const { return Block{}.size(); }
  GSHMEM_FN int block_rank() const {
#if defined(__CUDA_ARCH__)
    return static_cast<int>(blockIdx.x);
#else
    const device::HostLane* lane = gshmemi_ambient()->lane;
    return lane ? lane->block_rank : 0;
#endif
  }
  GSHMEM_FN int grid_size() const {
#if defined(__CUDA_ARCH__)
    return static_cast<int>(gridDim.x);
#else
    const device::HostLane* lane = gshmemi_ambient()->lane;
    return lane ? lane->grid_size : 1;
#endif
  }
};

namespace detail {

/// CPU mode runs all threads of a launch at once, as a GPU does with resident blocks.
inline constexpr unsigned kMaxHostThreads = 4096;

/// Throws "gshmem::launch: B blocks of T threads" and the reason.
[[noreturn]] inline void refuse_shape(const LaunchShape& shape, const std::string& why) {
  throw std::runtime_error("gshmem::launch: " + std::to_string(shape.blocks) + " blocks of " +
                           std::to_string(shape.threads) + " threads" + why);
}

inline void check_shape(const LaunchShape& shape, unsigned max_threads, bool on_host) {
  if (shape.blocks == 0) refuse_shape(shape, "; there is at least one block");
  if (shape.threads == 0 || shape.threads > max_threads)
    refuse_shape(shape, "; allowed are 1 to " + std::to_string(max_threads) + " per block");
  if (on_host && shape.blocks > kMaxHostThreads / shape.threads) {
    refuse_shape(shape,
                 " are more than the " + std::to_string(kMaxHostThreads) + " threads of CPU mode");
  }
}

/// Units with kernels are checked at init; those of other compilers register nothing. `mine` is the
/// number of the caller's headers.
inline void check_headers(unsigned mine) {
  if (const unsigned number = gshmemi_abi_number(); number != mine) {
    throw std::runtime_error(
        "gshmem: this part of the program was compiled with headers of another gshmem "
        "(number " +
        std::to_string(mine) + "; this library's has number " + std::to_string(number) +
        "); compile it again with this one's");
  }
}

template <class Call>
void launch_on_host(const LaunchShape& shape, const Call& call) {
  const auto lane = [](const void* c) { (*static_cast<const Call*>(c))(); };
  const int error = gshmemi_launch_on_host(shape.blocks, shape.threads, lane, &call);
  if (error != 0)
    refuse_shape(shape, std::string(" could not be started: ") + std::strerror(error));
}

#if defined(__CUDACC__)
template <unsigned kMaxThreads, class F, class... Args>
__global__ void __launch_bounds__(kMaxThreads)
    launch_kernel(const __grid_constant__ abi::DeviceState state, F functor, Args... args) {
  functor(LaunchContext(state), args...);
}

inline void check_cuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(error) + " (" +
                           cudaGetErrorString(error) + ")");
}

inline cudaStream_t stream_of(void* stream) {
  return stream ? static_cast<cudaStream_t>(stream) : cudaStreamPerThread;
}
#endif

/// launch(), with a state that may differ from that of the calling thread's PE, for example in its
/// queues.
template <unsigned kMaxThreads, class F, class... Args>
static void launch_with(const abi::DeviceState& state, const LaunchShape& shape, const F& functor,
                        Args... args) {
  const bool on_host = gshmemi_ambient()->ops == nullptr;
  check_shape(shape, kMaxThreads, on_host);
  if (on_host) {
    launch_on_host(shape, [&] { functor(LaunchContext(state), args...); });
    return;
  }
#if defined(__CUDACC__)
  const GpuScope scope;
  constexpr std::size_t kUnasked = 48 * 1024;  // more has to be requested
  if (shape.shared_bytes > kUnasked) {
    check_cuda(cudaFuncSetAttribute(launch_kernel<kMaxThreads, F, Args...>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shape.shared_bytes)),
               "gshmem::launch: shared_bytes");
  }
  launch_kernel<kMaxThreads>
      <<<shape.blocks, shape.threads, shape.shared_bytes, stream_of(shape.stream)>>>(state, functor,
                                                                                     args...);
  check_cuda(cudaGetLastError(), "gshmem::launch");
#else
  throw std::runtime_error(
      "gshmem::launch: the PE is on a GPU, but this unit was not compiled by nvcc");
#endif
}

}  // namespace detail

/// Runs `functor` on every thread of `shape` for the calling thread's PE. On a GPU it returns at
/// once (see synchronize); in CPU mode when all threads have returned. Errors: std::runtime_error
/// for a call before init, an invalid shape, a refused launch or a thread that could not be
/// started. Also for a PE on a GPU when this unit was not compiled by nvcc, and for a unit with the
/// headers of another version. An exception must not leave the functor: it ends the process in CPU
/// mode (std::terminate), and kernels have none.
template <unsigned kMaxThreads = 1024, class F, class... Args>
static void launch(const LaunchShape& shape, const F& functor, Args... args) {
  detail::check_headers(abi::kStateAbi);
  const abi::DeviceState* state = gshmemi_ambient()->state;
  if (!state) {
    throw std::runtime_error("gshmem::launch: the library is not initialized on this thread");
  }
  detail::launch_with<kMaxThreads>(*state, shape, functor, args...);
}

/// It is static, like launch, because units compiled by nvcc and by the host compiler have
/// different ones. Waits for the launches on `stream` (null = the calling thread's own). Errors:
/// std::runtime_error with the CUDA error; gshmemx_last_fault then returns what a kernel recorded.
[[maybe_unused]] static void synchronize([[maybe_unused]] void* stream = nullptr) {
#if defined(__CUDACC__)
  if (gshmemi_ambient()->ops != nullptr) {
    const detail::GpuScope scope;
    detail::check_cuda(cudaStreamSynchronize(detail::stream_of(stream)), "gshmem::synchronize");
  }
#endif
}

}  // namespace gshmem

// gshmem::launch: one functor, run as a CUDA kernel when the PE is on a GPU and on host threads in
// CPU mode, with the same group objects. What perftests, tests and examples are written with.
// C++20.
//
// A functor is called as functor(ctx, args...) const by every thread of the launch, where ctx is a
// LaunchContext; mark operator() GSHMEM_FN.
#pragma once

#include "context.hpp"

#include <stdexcept>
#include <string>
#if !defined(__CUDA_ARCH__)
#include <deque>
#include <thread>
#include <vector>
#endif

namespace gshmem {

struct LaunchShape {
  unsigned blocks = 1;
  unsigned threads = 1;          ///< per block
  std::size_t shared_bytes = 0;  ///< dynamic shared memory (GPU)
  void* stream = nullptr;        ///< cudaStream_t; null = the calling thread's own stream
};

/// What a functor gets: its PE, and where the calling thread stands in the launch.
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

template <class F, class... Args>
void launch_on_host(const abi::DeviceState& state, const LaunchShape& shape, const F& functor,
                    const Args&... args) {
#if !defined(__CUDA_ARCH__)
  const device::Ambient ambient = *gshmemi_ambient();
  const unsigned warps = (shape.threads + device::kHostWarpSize - 1) / device::kHostWarpSize;
  std::deque<device::HostBarrier> barriers;  // stable addresses
  std::deque<device::HostLane> lanes;
  for (unsigned block = 0; block < shape.blocks; ++block) {
    device::HostBarrier* whole = &barriers.emplace_back(static_cast<int>(shape.threads));
    std::vector<device::HostBarrier*> of_warp;
    for (unsigned warp = 0; warp < warps; ++warp) {
      const unsigned rest = shape.threads - warp * device::kHostWarpSize;
      of_warp.push_back(&barriers.emplace_back(
          static_cast<int>(rest < device::kHostWarpSize ? rest : device::kHostWarpSize)));
    }
    for (unsigned thread = 0; thread < shape.threads; ++thread) {
      lanes.push_back({static_cast<int>(thread), static_cast<int>(shape.threads),
                       static_cast<int>(block), static_cast<int>(shape.blocks), whole,
                       of_warp[thread / device::kHostWarpSize]});
    }
  }
  std::vector<std::thread> threads;
  for (const device::HostLane& lane : lanes) {
    threads.emplace_back([&ambient, &state, &lane, &functor, &args...] {
      device::Ambient& mine = *gshmemi_ambient();
      mine = ambient;
      mine.bound = true;
      mine.lane = &lane;
      functor(LaunchContext(state), args...);
      mine = {};
    });
  }
  for (std::thread& thread : threads) thread.join();
#endif
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

/// launch(), with a state that may differ from that of the calling thread's PE: in its queues, say.
template <unsigned kMaxThreads, class F, class... Args>
static void launch_with(const abi::DeviceState& state, const LaunchShape& shape, const F& functor,
                        Args... args) {
  if (shape.blocks == 0 || shape.threads == 0 || shape.threads > kMaxThreads) {
    throw std::runtime_error("gshmem::launch: shape has " + std::to_string(shape.blocks) +
                             " blocks of " + std::to_string(shape.threads) +
                             " threads; allowed are 1 to " + std::to_string(kMaxThreads) +
                             " per block");
  }
  if (gshmemi_ambient()->ops == nullptr) {
    if (shape.blocks > kMaxHostThreads / shape.threads) {
      throw std::runtime_error("gshmem::launch: " + std::to_string(shape.blocks) + " blocks of " +
                               std::to_string(shape.threads) + " threads are more than the " +
                               std::to_string(kMaxHostThreads) + " threads of CPU mode");
    }
    launch_on_host(state, shape, functor, args...);
    return;
  }
#if defined(__CUDACC__)
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
/// for a call before init, a bad shape or a refused launch, and for a PE on a GPU when this unit
/// was not compiled by nvcc.
template <unsigned kMaxThreads = 1024, class F, class... Args>
static void launch(const LaunchShape& shape, const F& functor, Args... args) {
  const abi::DeviceState* state = gshmemi_ambient()->state;
  if (!state) {
    throw std::runtime_error("gshmem::launch: the library is not initialized on this thread");
  }
  detail::launch_with<kMaxThreads>(*state, shape, functor, args...);
}

/// Static, as launch is, because units compiled by nvcc and by the host compiler have different
/// ones. Waits for the launches on `stream` (null = the calling thread's own). Errors:
/// std::runtime_error with the CUDA error, after which gshmemx_last_fault tells what a kernel
/// recorded.
[[maybe_unused]] static void synchronize([[maybe_unused]] void* stream = nullptr) {
#if defined(__CUDACC__)
  if (gshmemi_ambient()->ops != nullptr) {
    detail::check_cuda(cudaStreamSynchronize(detail::stream_of(stream)), "gshmem::synchronize");
  }
#endif
}

}  // namespace gshmem

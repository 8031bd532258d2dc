// Cooperative groups of the device library: the threads that make a call together. Every operation
// is a template over the group, a type with thread_rank(), size() and sync(), and is instantiated
// for the types below. Contract: all threads of the group make the call with the same arguments; a
// warp call is made by full warps; a block may have any shape. Groups also have any(): a sync that
// returns on all threads whether `mine` was true on one of them.
#pragma once

#include "host_block.h"
#include "machine.h"

#include <type_traits>

namespace gshmem::device {

/// The calling thread alone.
struct Thread {
  GSHMEM_FN int thread_rank() const { return 0; }
  GSHMEM_FN int size() const { return 1; }
  GSHMEM_FN void sync() const {}
  GSHMEM_FN bool any(bool mine) const { return mine; }
};

/// A thread whose copies keep few words in flight, in order to save registers.
struct LeanThread : Thread {};

/// Has the functions of Converged, for a thread that is alone.
struct Alone {
  GSHMEM_FN int size() const { return 1; }
  GSHMEM_FN int rank() const { return 0; }
  GSHMEM_FN bool first() const { return true; }
  GSHMEM_FN bool last() const { return true; }
  GSHMEM_FN bool alone() const { return true; }
  GSHMEM_FN void sync() const {}
  GSHMEM_FN std::uint64_t from_first(std::uint64_t value) const { return value; }
};

/// Threads of a warp that reach the same code together, with the same key: one of them may act for
/// all.
#if defined(__CUDA_ARCH__)
class Converged {
 public:
  __device__ explicit Converged(std::uint64_t key)
      : mask_(__match_any_sync(__activemask(), static_cast<unsigned long long>(key))) {}
  Converged() = default;
  /// Returns a group of the calling thread alone.
  __device__ static Converged self() {
    Converged group;
    group.mask_ = 1u << lane_id();
    return group;
  }
  __device__ int size() const { return __popc(mask_); }
  __device__ int rank() const { return __popc(mask_ & ((1u << lane_id()) - 1)); }
  __device__ bool first() const { return lane_id() == __ffs(static_cast<int>(mask_)) - 1; }
  __device__ bool last() const { return lane_id() == 31 - __clz(static_cast<int>(mask_)); }
  __device__ bool alone() const { return (mask_ & (mask_ - 1)) == 0; }
  // It tests first whether the thread is alone: the code for several threads takes dozens of
  // instructions.
  __device__ void sync() const {
    if (!alone()) __syncwarp(mask_);
  }
  __device__ std::uint64_t from_first(std::uint64_t value) const {
    if (alone()) return value;
    return __shfl_sync(mask_, static_cast<unsigned long long>(value),
                       __ffs(static_cast<int>(mask_)) - 1);
  }
  __device__ std::uint32_t from_last(std::uint32_t value) const {
    if (alone()) return value;
    return __shfl_sync(mask_, value, 31 - __clz(static_cast<int>(mask_)));
  }

 private:
  friend struct WholeWarp;
  unsigned mask_;
};
/// Is no other thread of the warp active here?
__device__ inline bool is_alone() {
  const unsigned here = __activemask();
  return (here & (here - 1)) == 0;
}

/// Has the functions of Converged, for all threads of a warp: each of its steps is one instruction.
struct WholeWarp {
  __device__ int size() const { return 32; }
  __device__ int rank() const { return static_cast<int>(lane_id()); }
  __device__ bool first() const { return lane_id() == 0; }
  __device__ bool last() const { return lane_id() == 31; }
  __device__ bool alone() const { return false; }
  __device__ void sync() const { __syncwarp(); }
  __device__ std::uint64_t from_first(std::uint64_t value) const {
    return __shfl_sync(~0u, static_cast<unsigned long long>(value), 0);
  }
  __device__ std::uint32_t from_last(std::uint32_t value) const {
    return __shfl_sync(~0u, value, 31);
  }
  __device__ Converged converged() const {
    Converged group;
    group.mask_ = ~0u;
    return group;
  }
  /// Are all threads of the warp here together, with the same key?
  __device__ static bool is_here(std::uint32_t key) {
    if (__activemask() != ~0u) return false;
    int same = 0;
    __match_all_sync(~0u, key, &same);
    return same != 0;
  }
};
#else
struct WholeWarp : Converged {
  static Converged converged() { return self(); }
  static bool is_here(std::uint32_t) { return false; }
};
#endif

#if defined(__CUDA_ARCH__)

/// Return the number of the calling thread's block in its grid, of its thread in the block, and of
/// its warp in the grid.
__device__ inline std::uint32_t block_number() {
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}
/// Returns a number that spreads blocks over queues. All threads of a block get the same number:
/// that of the block if the grid has one dimension. It takes no multiplication.
__device__ inline std::uint32_t block_spread() { return blockIdx.x + blockIdx.y + blockIdx.z; }
__device__ inline std::uint32_t thread_number() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__device__ inline std::uint32_t warp_number() {
  const std::uint32_t warps = (blockDim.x * blockDim.y * blockDim.z + 31) / 32;
  return block_number() * warps + thread_number() / 32;
}

struct Warp {
  __device__ int thread_rank() const { return lane_id(); }
  __device__ int size() const { return 32; }
  __device__ void sync() const { __syncwarp(); }
  /// A vote alone does not order memory.
  __device__ bool any(bool mine) const {
    const bool any = __any_sync(~0u, mine) != 0;
    __syncwarp();
    return any;
  }
};

/// Four consecutive warps of a block, where the number of the first warp is a multiple of four. The
/// last group of a block may have fewer warps. Warpgroups synchronize at named hardware barriers. A
/// block has 16 of these and at most eight warpgroups, which use the last eight. A kernel that uses
/// warpgroups must not use these barriers itself.
struct Warpgroup {
  static constexpr std::uint32_t kThreads = 128, kFirstBarrier = 8;
  __device__ int thread_rank() const { return static_cast<int>(thread_number() % kThreads); }
  __device__ int size() const {
    const std::uint32_t all = blockDim.x * blockDim.y * blockDim.z;
    const std::uint32_t rest = all - thread_number() / kThreads * kThreads;
    return static_cast<int>(rest < kThreads ? rest : kThreads);
  }
  __device__ void sync() const { sync_at(barrier(), whole_warps()); }
  __device__ bool any(bool mine) const { return any_at(barrier(), whole_warps(), mine); }

 private:
  __device__ static std::uint32_t barrier() { return kFirstBarrier + thread_number() / kThreads; }
  __device__ std::uint32_t whole_warps() const {
    return (static_cast<std::uint32_t>(size()) + 31) / 32 * 32;
  }
};

struct Block {
  __device__ int thread_rank() const { return static_cast<int>(thread_number()); }
  __device__ int size() const { return static_cast<int>(blockDim.x * blockDim.y * blockDim.z); }
  __device__ void sync() const { __syncthreads(); }
  __device__ bool any(bool mine) const { return __syncthreads_or(mine) != 0; }
};

#else

inline std::uint32_t block_number() {
  const HostLane* lane = gshmemi_ambient()->lane;
  return lane ? static_cast<std::uint32_t>(lane->block_rank) : 0;
}
inline std::uint32_t block_spread() { return block_number(); }
inline std::uint32_t thread_number() {
  const HostLane* lane = gshmemi_ambient()->lane;
  return lane ? static_cast<std::uint32_t>(lane->thread_rank) : 0;
}
inline std::uint32_t warp_number() {
  const HostLane* lane = gshmemi_ambient()->lane;
  if (!lane) return 0;
  const int warps = (lane->block_size + kHostWarpSize - 1) / kHostWarpSize;
  return static_cast<std::uint32_t>(lane->block_rank * warps + lane->thread_rank / kHostWarpSize);
}

struct Warp {
  GSHMEM_FN int thread_rank() const {
    const HostLane* lane = gshmemi_ambient()->lane;
    return lane ? lane->thread_rank % kHostWarpSize : 0;
  }
  GSHMEM_FN int size() const {
    const HostLane* lane = gshmemi_ambient()->lane;
    if (!lane) return 1;
    const int first = lane->thread_rank - lane->thread_rank % kHostWarpSize;
    const int rest = lane->block_size - first;
    return rest < kHostWarpSize ? rest : kHostWarpSize;
  }
  GSHMEM_FN void sync() const {
    const HostLane* lane = gshmemi_ambient()->lane;
    if (lane && lane->warp_barrier) lane->warp_barrier->arrive_and_wait();
  }
  GSHMEM_FN bool any(bool mine) const {
    const HostLane* lane = gshmemi_ambient()->lane;
    return lane && lane->warp_barrier ? lane->warp_barrier->arrive_and_any(mine) : mine;
  }
};

/// Four warps, as on the GPU.
struct Warpgroup {
  static constexpr int kThreads = 4 * kHostWarpSize;
  GSHMEM_FN int thread_rank() const {
    const HostLane* lane = gshmemi_ambient()->lane;
    return lane ? lane->thread_rank % kThreads : 0;
  }
  GSHMEM_FN int size() const {
    const HostLane* lane = gshmemi_ambient()->lane;
    if (!lane) return 1;
    const int rest = lane->block_size - lane->thread_rank / kThreads * kThreads;
    return rest < kThreads ? rest : kThreads;
  }
  GSHMEM_FN void sync() const {
    const HostLane* lane = gshmemi_ambient()->lane;
    if (lane && lane->warpgroup_barrier) lane->warpgroup_barrier->arrive_and_wait();
  }
  GSHMEM_FN bool any(bool mine) const {
    const HostLane* lane = gshmemi_ambient()->lane;
    return lane && lane->warpgroup_barrier ? lane->warpgroup_barrier->arrive_and_any(mine) : mine;
  }
};

struct Block {
  GSHMEM_FN int thread_rank() const {
    const HostLane* lane = gshmemi_ambient()->lane;
    return lane ? lane->thread_rank : 0;
  }
  GSHMEM_FN int size() const {
    const HostLane* lane = gshmemi_ambient()->lane;
    return lane ? lane->block_size : 1;
  }
  GSHMEM_FN void sync() const {
    const HostLane* lane = gshmemi_ambient()->lane;
    if (lane && lane->block_barrier) lane->block_barrier->arrive_and_wait();
  }
  GSHMEM_FN bool any(bool mine) const {
    const HostLane* lane = gshmemi_ambient()->lane;
    return lane && lane->block_barrier ? lane->block_barrier->arrive_and_any(mine) : mine;
  }
};

#endif

/// Synchronizes the lanes of a warp where they may have diverged and the compiler may assume that
/// they have not. ptxas removes the barrier of a full warp if its analysis says so: with CUDA 13.0
/// lanes overtook each other after a loop with out-of-line calls. The mask used here is unknown at
/// compile time.
template <class Coop>
GSHMEM_FN void sync_lanes(Coop) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_base_of_v<Warp, Coop>) {
    __syncwarp(all_lanes());
  }
#endif
}

/// Returns the rank in the group of the first lane of the calling thread's warp.
template <class Coop>
GSHMEM_FN std::uint32_t first_of_warp(Coop coop) {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint32_t>(coop.thread_rank()) & ~31u;
#else
  return static_cast<std::uint32_t>(coop.thread_rank());  // groups on the CPU have no lanes
#endif
}

/// A warp whose copies keep few words in flight, like a LeanThread.
struct LeanWarp : Warp {};

}  // namespace gshmem::device

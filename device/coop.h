// Cooperative groups of the device library: who takes part in a call. Every operation is written
// once over any type with thread_rank(), size() and sync(), and instantiated for these three.
// Contract: all threads of the group make the call with the same arguments; a warp call is made by
// full warps; a block may have any shape.
#pragma once

#include "host_group.h"
#include "machine.h"

namespace gshmem::device {

/// The calling thread alone.
struct Thread {
  GSHMEM_FN int thread_rank() const { return 0; }
  GSHMEM_FN int size() const { return 1; }
  GSHMEM_FN void sync() const {}
};

#if defined(__CUDA_ARCH__)

struct Warp {
  __device__ int thread_rank() const { return lane_id(); }
  __device__ int size() const { return 32; }
  __device__ void sync() const { __syncwarp(); }
};

struct Block {
  __device__ int thread_rank() const {
    return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
  }
  __device__ int size() const { return static_cast<int>(blockDim.x * blockDim.y * blockDim.z); }
  __device__ void sync() const { __syncthreads(); }
};

#else

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
};

#endif

}  // namespace gshmem::device

// Collectives by blocks of 1,024 threads in a unit of its own, written against NVSHMEM's names.
#include "steps.h"

#include <nvshmemx.h>

__global__ void steps(Arrays arrays, std::size_t n, int* wrong) {
  const int me = nvshmem_my_pe(), pes = nvshmem_n_pes();
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x)
      arrays.source[i] = me + round + static_cast<int>(i);
    __syncthreads();
    nvshmemx_int_sum_reduce_block(NVSHMEM_TEAM_WORLD, arrays.sums, arrays.source, n);
    nvshmemx_int_fcollect_block(NVSHMEM_TEAM_WORLD, arrays.all, arrays.source, n);
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x) {
      const int first = round + static_cast<int>(i);
      if (arrays.sums[i] != pes * first + pes * (pes - 1) / 2) atomicAdd(wrong, 1);
      for (int pe = 0; pe < pes; ++pe)
        if (arrays.all[static_cast<std::size_t>(pe) * n + i] != first + pe) atomicAdd(wrong, 1);
    }
    nvshmemx_barrier_all_block();
  }
}

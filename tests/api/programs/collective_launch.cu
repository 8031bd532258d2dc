// A program for NVSHMEM: collective launches at the largest grid and with a barrier in the kernel,
// and a grid that does not fit, which is an error on all PEs.
#include <cooperative_groups.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <stdio.h>
#include <string.h>

__global__ void count_blocks(int* blocks, int* total) {
  if (threadIdx.x == 0) atomicAdd(blocks, 1);
  cooperative_groups::this_grid().sync();
  if (blockIdx.x == 0) {
    nvshmemx_barrier_all_block();
    if (threadIdx.x == 0) nvshmem_int_atomic_add(total, *blocks, 0);
    nvshmemx_barrier_all_block();
  }
}

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    printf("skipped: collective_launch needs a GPU\n");
    return 77;
  }
  nvshmem_init();
  const int mype = nvshmem_my_pe(), npes = nvshmem_n_pes();
  cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE));
  int* blocks = (int*)nvshmem_calloc(1, sizeof(int));
  int* total = (int*)nvshmem_calloc(1, sizeof(int));
  void* args[] = {&blocks, &total};
  const void* kernel = (const void*)count_blocks;

  int largest = 0;
  if (nvshmemx_collective_launch_query_gridsize(kernel, dim3(128), args, 0, &largest) != 0)
    return 1;

  // The grid is too large on PE 0 only: no PE may launch.
  const dim3 grid(mype == 0 ? largest + 1 : 1);
  const int refused = nvshmemx_collective_launch(kernel, grid, dim3(128), args, 0, 0);
  // The launch has attributes; the caller orders the streams.
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaLaunchAttribute priority;
  priority.id = cudaLaunchAttributePriority;
  priority.val.priority = 0;
  struct nvshmemx_collective_launch_attr attr = {};  // NVSHMEM has the tag, too
  attr.cuda_config.gridDim = dim3(0);
  attr.cuda_config.blockDim = dim3(128);
  attr.cuda_config.stream = stream;
  attr.cuda_config.attrs = &priority;
  attr.cuda_config.numAttrs = 1;
  if (nvshmemx_collective_launch_attr(nullptr, kernel, args) != NVSHMEMX_ERROR_INVALID_VALUE)
    return 1;
  if (nvshmemx_collective_launch_attr(&attr, kernel, args) != NVSHMEMX_SUCCESS) return 1;
  if (cudaStreamSynchronize(stream) != cudaSuccess) return 1;
  nvshmem_barrier_all();
  if (nvshmem_int_g(total, 0) != largest * npes) return 1;
  nvshmem_barrier_all();  // all PEs have checked
  cudaMemset(blocks, 0, sizeof(int));
  cudaMemset(total, 0, sizeof(int));
  nvshmem_barrier_all();
  const int accepted = nvshmemx_collective_launch(kernel, dim3(0), dim3(128), args, 0, 0);
  if (accepted != NVSHMEMX_SUCCESS || cudaDeviceSynchronize() != cudaSuccess) return 1;
  nvshmem_barrier_all();

  const int got = nvshmem_int_g(total, 0);
  printf("%d of %d: %d blocks at most, %d counted on all PEs, oversized grid: status %d\n", mype,
         npes, largest, got, refused);
  nvshmem_barrier_all();
  nvshmem_free(total);
  nvshmem_free(blocks);
  nvshmem_finalize();
  return got == largest * npes && refused == NVSHMEMX_ERROR_INVALID_VALUE ? 0 : 1;
}

// A program for NVSHMEM: blocks send parts of an array to the next PE with a signal each, and wait
// for the parts of the previous one. Launched collectively, because PEs wait for each other.
#include <nvshmem.h>
#include <nvshmemx.h>

#include <stdio.h>
#include <stdlib.h>
#include <cstdint>

constexpr int kBlocks = 8;
constexpr size_t kPart = 4096;

__global__ void exchange(float* data, float* inbox, uint64_t* signals, uint64_t round) {
  const int mype = nvshmem_my_pe(), npes = nvshmem_n_pes();
  const size_t first = blockIdx.x * kPart;
  for (size_t i = threadIdx.x; i < kPart; i += blockDim.x) {
    data[first + i] = (float)(mype * 1000 + (int)round) + (float)(first + i) / 65536.0f;
  }
  __syncthreads();
  nvshmemx_float_put_signal_nbi_block(inbox + first, data + first, kPart, signals + blockIdx.x,
                                      round, NVSHMEM_SIGNAL_SET, (mype + 1) % npes);
  if (threadIdx.x == 0) nvshmem_signal_wait_until(signals + blockIdx.x, NVSHMEM_CMP_EQ, round);
  __syncthreads();
}

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    printf("skipped: put_signal needs a GPU\n");
    return 77;
  }
  nvshmem_init();
  const int mype = nvshmem_my_pe(), npes = nvshmem_n_pes();
  cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE));
  const size_t count = kBlocks * kPart;
  float* data = (float*)nvshmem_malloc(count * sizeof(float));
  float* inbox = (float*)nvshmem_malloc(count * sizeof(float));
  uint64_t* signals = (uint64_t*)nvshmem_calloc(kBlocks, sizeof(uint64_t));
  float* host = (float*)malloc(count * sizeof(float));

  int wrong = 0;
  for (uint64_t round = 1; round <= 10; ++round) {
    void* args[] = {&data, &inbox, &signals, &round};
    const int status =
        nvshmemx_collective_launch((const void*)exchange, dim3(kBlocks), dim3(256), args, 0, 0);
    if (status != NVSHMEMX_SUCCESS || cudaDeviceSynchronize() != cudaSuccess) return 1;
    cudaMemcpy(host, inbox, count * sizeof(float), cudaMemcpyDeviceToHost);
    const int from = (mype + npes - 1) % npes;
    for (size_t i = 0; i < count; ++i) {
      wrong += host[i] != (float)(from * 1000 + (int)round) + (float)i / 65536.0f;
    }
    nvshmem_barrier_all();
  }
  printf("%d of %d: %d wrong\n", mype, npes, wrong);
  free(host);
  nvshmem_free(signals);
  nvshmem_free(inbox);
  nvshmem_free(data);
  nvshmem_finalize();
  return wrong == 0 ? 0 : 1;
}

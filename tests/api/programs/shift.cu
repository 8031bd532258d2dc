// A program for NVSHMEM that begins like its tutorials: each PE stores its number at the next one.
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <stdio.h>

#define CUDA_OK(CALL)                                                                \
  do {                                                                               \
    cudaError_t error = (CALL);                                                      \
    if (error != cudaSuccess) {                                                      \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
      return 1;                                                                      \
    }                                                                                \
  } while (0)

__global__ void shift(int* destination) {
  const int mype = nvshmem_my_pe();
  const int npes = nvshmem_n_pes();
  nvshmem_int_p(destination, mype, (mype + 1) % npes);
}

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    printf("skipped: shift needs a GPU\n");
    return 77;
  }
  nvshmem_init();
  const int mype = nvshmem_my_pe(), npes = nvshmem_n_pes();
  CUDA_OK(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % gpus));
  cudaStream_t stream;
  CUDA_OK(cudaStreamCreate(&stream));
  int* destination = (int*)nvshmem_malloc(sizeof(int));

  shift<<<1, 1, 0, stream>>>(destination);
  CUDA_OK(cudaStreamSynchronize(stream));
  nvshmem_barrier_all();

  int message = -1;
  CUDA_OK(cudaMemcpyAsync(&message, destination, sizeof(int), cudaMemcpyDeviceToHost, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  printf("%d of %d: received %d\n", mype, npes, message);

  nvshmem_free(destination);
  nvshmem_finalize();
  return message == (mype + npes - 1) % npes ? 0 : 1;
}

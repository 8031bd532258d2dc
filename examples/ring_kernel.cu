// The ring as a plain CUDA program: __global__, <<<>>>, the C API. Any file that includes gshmem.h
// may hold such kernels; ordinary nvcc, no -rdc, no device link:
//   nvcc -arch=sm_90 ring_kernel.cu $(pkg-config --cflags --libs gshmem)
//   mpirun -np 4 bin/ring_kernel
#include <gshmem/gshmem.h>

#include <cstdio>
#include <vector>

constexpr int kLaps = 100;
constexpr size_t kCount = 4096;

// One block: its first thread waits for the token, all change it and pass it on.
__global__ void ring(int* token, uint64_t* arrived) {
  const int me = gshmem_my_pe(), n = gshmem_n_pes();
  for (uint64_t hop = me; hop < uint64_t{kLaps} * n; hop += n) {
    if (threadIdx.x == 0) gshmem_signal_wait_until(arrived, GSHMEM_CMP_GE, hop);
    __syncthreads();
    for (size_t i = threadIdx.x; i < kCount; i += blockDim.x) token[i] += 1;
    __syncthreads();
    gshmemx_int_put_signal_block(token, token, kCount, arrived, hop + 1, GSHMEM_SIGNAL_SET,
                                 (me + 1) % n);
  }
  if (me == 0 && threadIdx.x == 0) {
    gshmem_signal_wait_until(arrived, GSHMEM_CMP_GE, uint64_t{kLaps} * n);
  }
}

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::printf("skipped: ring_kernel needs a GPU\n");
    return 77;
  }
  gshmem_init();  // also makes this PE's GPU the current one
  const int me = gshmem_my_pe(), n = gshmem_n_pes();
  int* token = static_cast<int*>(gshmem_calloc(kCount, sizeof(int)));
  uint64_t* arrived = static_cast<uint64_t*>(gshmem_calloc(1, sizeof(uint64_t)));
  if (!token || !arrived) return 1;

  ring<<<1, 256>>>(token, arrived);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    gshmemx_fault_t fault;  // what the kernel recorded before it trapped
    gshmemx_last_fault(&fault);
    std::fprintf(stderr, "ring_kernel: %s; %s\n", cudaGetErrorString(error), fault.message);
    return 1;
  }

  const int want = me == 0 ? kLaps * n : (kLaps - 1) * n + me + 1;
  std::vector<int> got(kCount);
  cudaMemcpy(got.data(), token, kCount * sizeof(int), cudaMemcpyDefault);
  size_t wrong = 0;
  for (int value : got) wrong += value != want;
  std::printf("ring_kernel: PE %d of %d: %d laps, %zu of %zu elements wrong\n", me, n, kLaps, wrong,
              kCount);
  gshmem_free(arrived);
  gshmem_free(token);
  gshmem_finalize();
  return wrong == 0 ? 0 : 1;
}

// A ring in NVSHMEM's style. If PEs have no GPU, host calls replace the kernel.
#include <nvshmem.h>
#include <nvshmemx.h>

static_assert(sizeof(CUdeviceptr) == sizeof(void*), "<cuda.h> comes with <nvshmem.h>");
constexpr int kWords = 256;
__device__ void step_to(int* dest, const int* source, int n, int pe);

__global__ void ring(int* dest, int* source) {
  const int mype = nvshmem_my_pe();
  source[threadIdx.x % kWords] = mype;
  __syncthreads();
  step_to(dest, source, kWords, (mype + 1) % nvshmem_n_pes());
  nvshmemx_barrier_all_block();
}

int main() {
  nvshmem_init();
  const int mype = nvshmem_my_pe(), npes = nvshmem_n_pes();
  int devices = 0;
  const bool has_gpu = getenv("GSHMEM_DEVICE") && !strcmp(getenv("GSHMEM_DEVICE"), "cuda") &&
                       cudaGetDeviceCount(&devices) == cudaSuccess;
  int* dest = static_cast<int*>(nvshmem_malloc(kWords * sizeof(int)));
  int* source = static_cast<int*>(nvshmem_malloc(kWords * sizeof(int)));
  assert(dest && source);
  int last = -1;
  if (has_gpu) {
    void* args[] = {&dest, &source};
    if (nvshmemx_collective_launch(reinterpret_cast<const void*>(ring), 1, kWords, args, 0,
                                   nullptr) != 0 ||
        cudaDeviceSynchronize() != cudaSuccess ||
        cudaMemcpy(&last, dest + kWords - 1, sizeof(last), cudaMemcpyDeviceToHost) != cudaSuccess)
      return 1;
  } else {
    for (int i = 0; i < kWords; ++i) source[i] = mype;
    nvshmem_int_put(dest, source, kWords, (mype + 1) % npes);
    nvshmem_barrier_all();
    last = nvshmem_int_g(dest + kWords - 1, mype);
  }
  nvshmem_free(source);
  nvshmem_free(dest);
  if (last != (mype + npes - 1) % npes) return 1;
  printf("PE %d of %d\n", mype, npes);
  nvshmem_finalize();
  return 0;
}

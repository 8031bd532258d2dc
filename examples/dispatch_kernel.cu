// The dispatch of a mixture of experts as a plain CUDA program: every PE sends each of its tokens
// to the PE of the token's expert. A block reserves a row at the target with an atomic, then writes
// it; how many rows come from where is not known in advance.
//   nvcc -arch=sm_90 dispatch_kernel.cu $(pkg-config --cflags --libs gshmem)
//   mpirun -np 4 bin/dispatch_kernel
#include <gshmem/gshmem.h>

#include <cstdio>
#include <vector>

constexpr int kTokens = 512, kHidden = 1024;

// Any spread will do; receiver and sender can both compute it.
__host__ __device__ int expert_of(int pe, int token, int n) { return (pe * 7 + token * 3) % n; }
__host__ __device__ float value_of(int pe, int token, int i) {
  return pe * 1000.f + token + i * 0.5f;
}

// inbox: kTokens * n_pes rows. rows: rows reserved in it. signal: counts rows that have arrived.
__global__ void dispatch(const float* tokens, float* inbox, int* rows, uint64_t* signal) {
  const int me = gshmem_my_pe(), n = gshmem_n_pes();
  __shared__ int row;
  for (int t = blockIdx.x; t < kTokens; t += gridDim.x) {
    const int pe = expert_of(me, t, n);
    if (threadIdx.x == 0) row = gshmem_int_atomic_fetch_inc(rows, pe);
    __syncthreads();
    gshmemx_float_put_signal_nbi_block(inbox + size_t(row) * kHidden, tokens + t * kHidden, kHidden,
                                       signal, 1, GSHMEM_SIGNAL_ADD, pe);
    __syncthreads();  // `row` is reused
  }
}

__global__ void wait_for_rows(uint64_t* signal, uint64_t count) {
  gshmem_signal_wait_until(signal, GSHMEM_CMP_GE, count);
}

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::printf("skipped: dispatch_kernel needs a GPU\n");
    return 77;
  }
  gshmem_init();
  const int me = gshmem_my_pe(), n = gshmem_n_pes();
  const size_t capacity = size_t{kTokens} * n * kHidden;
  float* inbox = static_cast<float*>(gshmem_malloc(capacity * sizeof(float)));
  int* rows = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
  uint64_t* signal = static_cast<uint64_t*>(gshmem_calloc(1, sizeof(uint64_t)));

  // The source of a put may be any memory of this GPU.
  std::vector<float> host(kTokens * kHidden);
  for (int i = 0; i < kTokens * kHidden; ++i) host[i] = value_of(me, i / kHidden, i % kHidden);
  float* tokens = nullptr;
  if (!inbox || !rows || !signal || cudaMalloc(&tokens, host.size() * sizeof(float))) return 1;
  cudaMemcpy(tokens, host.data(), host.size() * sizeof(float), cudaMemcpyDefault);

  size_t expected = 0;
  for (int pe = 0; pe < n; ++pe) {
    for (int t = 0; t < kTokens; ++t) expected += expert_of(pe, t, n) == me;
  }
  dispatch<<<64, 256>>>(tokens, inbox, rows, signal);
  wait_for_rows<<<1, 1>>>(signal, expected);
  if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) {
    gshmemx_fault_t fault;  // what the kernel recorded before it trapped
    gshmemx_last_fault(&fault);
    std::fprintf(stderr, "dispatch_kernel: %s; %s\n", cudaGetErrorString(error), fault.message);
    return 1;
  }

  // Rows are in any order; the first value tells whose token it is.
  std::vector<float> got(expected * kHidden);
  cudaMemcpy(got.data(), inbox, got.size() * sizeof(float), cudaMemcpyDefault);
  std::vector<char> seen(size_t{kTokens} * n);
  size_t wrong = 0;
  for (size_t r = 0; r < expected; ++r) {
    const int first = static_cast<int>(got[r * kHidden]), pe = first / 1000, t = first % 1000;
    bool good = pe < n && t < kTokens && expert_of(pe, t, n) == me && !seen[pe * kTokens + t]++;
    for (int i = 0; good && i < kHidden; ++i) good = got[r * kHidden + i] == value_of(pe, t, i);
    wrong += !good;
  }
  std::printf("dispatch_kernel: PE %d of %d: %zu rows, %zu wrong\n", me, n, expected, wrong);
  gshmem_finalize();  // frees the symmetric memory, too
  cudaFree(tokens);
  return wrong == 0 ? 0 : 1;
}

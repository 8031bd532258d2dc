// A 2-D Jacobi iteration written for NVSHMEM: nothing in it is specific to gshmem. Each PE has a
// band of rows with a halo row on either side. A kernel per step stores the band's first and last
// row into the neighbours' halos, and barriers on the stream separate the steps. Every 50 steps the
// residual is summed over all PEs.
//   make NVSHMEM_HOME=... && mpirun -np 2 ./jacobi
#include <nvshmem.h>
#include <nvshmemx.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#define CHECK(CALL)                                                               \
  do {                                                                            \
    const cudaError_t error = (CALL);                                             \
    if (error != cudaSuccess) {                                                   \
      std::fprintf(stderr, "jacobi: %s: %s\n", #CALL, cudaGetErrorString(error)); \
      std::exit(1);                                                               \
    }                                                                             \
  } while (0)

constexpr int kColumns = 256, kRows = 64, kSteps = 200,
              kEvery = 50;  // rows of each PE, without halos

__global__ void step(float* now, const float* old, float* residual, int above, int below) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y + 1;
  if (column >= kColumns) return;
  const int at = row * kColumns + column;
  float value = old[at];
  if (column > 0 && column + 1 < kColumns) {
    value = 0.25f * (old[at - 1] + old[at + 1] + old[at - kColumns] + old[at + kColumns]);
  }
  now[at] = value;
  if (residual) atomicAdd(residual, (value - old[at]) * (value - old[at]));
  if (row == 1 && above >= 0) nvshmem_float_p(now + (kRows + 1) * kColumns + column, value, above);
  if (row == kRows && below >= 0) nvshmem_float_p(now + column, value, below);
}

// The side above the first row is hot.
std::vector<float> begin_of(int rows) {
  std::vector<float> cells((rows + 2) * kColumns);
  for (int i = 0; i < kColumns; ++i) cells[i] = 1;
  return cells;
}

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::printf("skipped: jacobi needs a GPU\n");
    return 77;
  }
  nvshmem_init();
  const int me = nvshmem_my_pe(), n = nvshmem_n_pes();
  CHECK(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % gpus));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));

  const size_t bytes = (kRows + 2) * kColumns * sizeof(float);
  float* now = static_cast<float*>(nvshmem_malloc(bytes));
  float* old = static_cast<float*>(nvshmem_malloc(bytes));
  float* residual =
      static_cast<float*>(nvshmem_malloc(2 * sizeof(float)));  // this PE's, and all PEs'
  if (!now || !old || !residual) return 1;
  const std::vector<float> all = begin_of(n * kRows);
  for (float* const cells : {now, old})
    CHECK(cudaMemcpy(cells, &all[me * kRows * kColumns], bytes, cudaMemcpyDefault));
  nvshmem_barrier_all();

  const int above = me > 0 ? me - 1 : -1, below = me + 1 < n ? me + 1 : -1;
  const dim3 blocks((kColumns + 127) / 128, kRows);
  for (int i = 1; i <= kSteps; ++i) {
    const bool look = i % kEvery == 0;
    if (look) CHECK(cudaMemsetAsync(residual, 0, sizeof(float), stream));
    step<<<blocks, 128, 0, stream>>>(now, old, look ? residual : nullptr, above, below);
    nvshmemx_barrier_all_on_stream(stream);
    if (look) {
      nvshmemx_float_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, residual + 1, residual, 1, stream);
      float sum = 0;
      CHECK(cudaMemcpyAsync(&sum, residual + 1, sizeof(float), cudaMemcpyDefault, stream));
      CHECK(cudaStreamSynchronize(stream));
      if (me == 0) std::printf("jacobi: step %d, residual %f\n", i, std::sqrt(sum));
    }
    std::swap(now, old);
  }
  CHECK(cudaStreamSynchronize(stream));
  std::vector<float> got(kRows * kColumns);
  CHECK(cudaMemcpy(got.data(), old + kColumns, got.size() * sizeof(float), cudaMemcpyDefault));

  // Computes the same iteration on one CPU, for the rows of all PEs.
  std::vector<float> before = all, after = all;
  for (int i = 0; i < kSteps; ++i) {
    for (int row = 1; row <= n * kRows; ++row) {
      for (int column = 1; column + 1 < kColumns; ++column) {
        const int at = row * kColumns + column;
        after[at] = 0.25f * (before[at - 1] + before[at + 1] + before[at - kColumns] +
                             before[at + kColumns]);
      }
    }
    std::swap(before, after);
  }
  int wrong = 0;
  for (int i = 0; i < kRows * kColumns; ++i) {
    wrong += !(std::fabs(got[i] - before[(me * kRows + 1) * kColumns + i]) < 1e-6f);
  }
  std::printf("jacobi: PE %d of %d: %d cells wrong\n", me, n, wrong);

  nvshmem_free(residual);
  nvshmem_free(old);
  nvshmem_free(now);
  CHECK(cudaStreamDestroy(stream));
  nvshmem_finalize();
  return wrong == 0 ? 0 : 1;
}

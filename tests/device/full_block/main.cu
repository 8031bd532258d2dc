// Tests that a kernel with collectives can be launched with 1,024 threads if units are compiled
// with -rdc=true, as in the makefiles of NVSHMEM programs, and gives the right results.
#include "steps.h"

#include <cstdio>
#include <cstdlib>
#include <nvshmem.h>

namespace {
void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "full_block: %s\n", what);
  std::exit(1);
}
}  // namespace

int main() {
  nvshmem_init();
  const auto pes = static_cast<std::size_t>(nvshmem_n_pes());
  for (const std::size_t n : {2, 1000, 100003}) {
    const std::size_t bytes = n * sizeof(int);
    const auto words = [](std::size_t size) { return static_cast<int*>(nvshmem_malloc(size)); };
    const Arrays arrays{words(bytes), words(bytes), words(bytes * pes)};
    int *counted = nullptr, wrong = -1;
    require(cudaMalloc(&counted, sizeof(int)) == cudaSuccess, "cudaMalloc failed");
    require(cudaMemset(counted, 0, sizeof(int)) == cudaSuccess, "cudaMemset failed");
    steps<<<1, 1024>>>(arrays, n, counted);
    require(cudaGetLastError() == cudaSuccess, "a kernel of 1024 threads cannot be launched");
    require(cudaMemcpy(&wrong, counted, sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess,
            "the kernel failed");
    std::printf("PE %d, %zu integers: %d wrong\n", nvshmem_my_pe(), n, wrong);
    require(wrong == 0, "data are wrong");
    nvshmem_barrier_all();
    nvshmem_free(arrays.all);
    nvshmem_free(arrays.sums);
    nvshmem_free(arrays.source);
    cudaFree(counted);
  }
  nvshmem_finalize();
}

// Tests that every unit's kernels find their PE: two units of the program and one of a shared
// library, and a second round of init.
#include "kernels.h"

#include <gshmem/gshmem.h>

#include <cstdio>

namespace {

__global__ void look_here(Seen* seen) { seen->my_pe = gshmem_my_pe() + 1000; }

int check(const char* unit, Launch launch, Seen* seen) {
  const int me = gshmem_my_pe(), n = gshmem_n_pes();
  if (const int error = launch(seen); error != 0) {
    std::printf("%s: CUDA error %d\n", unit, error);
    return 1;
  }
  gshmem_barrier_all();
  Seen got{};
  gshmem_getmem(&got, seen, sizeof(got), me);
  gshmem_barrier_all();
  const int left = (me + n - 1) % n;
  const bool right = got.my_pe == me && got.n_pes == n && got.from_left == left;
  std::printf("%s: PE %d of %d, from the left %d%s\n", unit, got.my_pe, got.n_pes, got.from_left,
              right ? "" : "  WRONG");
  return right ? 0 : 1;
}

int round_of_init() {
  gshmem_init();
  Seen* seen = static_cast<Seen*>(gshmem_calloc(1, sizeof(Seen)));
  int wrong = check("first unit", launch_first, seen) + check("second unit", launch_second, seen) +
              check("shared library", launch_library, seen);
  look_here<<<1, 1>>>(seen);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  const int mine = gshmem_int_g(&seen->my_pe, gshmem_my_pe());
  wrong += mine != gshmem_my_pe() + 1000;
  gshmem_free(seen);
  gshmem_finalize();
  return wrong;
}

}  // namespace

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::printf("skipped: units needs a GPU\n");
    return 77;
  }
  const int wrong = round_of_init() + round_of_init();
  return wrong == 0 ? 0 : 1;
}

// The smallest program: every PE stores its number at the next one. C, host calls only, so it runs
// the same on GPUs and in CPU mode.
//   mpirun -np 4 bin/hello
#include <gshmem/gshmem.h>

#include <stdio.h>

int main(void) {
  gshmem_init();  // on failure the process ends with the reason on stderr
  const int me = gshmem_my_pe(), n = gshmem_n_pes();

  // Symmetric: the same call on every PE, the same offset in every heap. The memory may be on a
  // GPU, so the host reads it with gshmem_int_g, not through the pointer.
  int* left = gshmem_calloc(1, sizeof(int));
  if (!left) return 1;

  gshmem_int_p(left, me, (me + 1) % n);
  gshmem_barrier_all();  // completes the put, then waits for all PEs

  const int got = gshmem_int_g(left, me);
  printf("hello from PE %d of %d; PE %d is on my left\n", me, n, got);

  gshmem_free(left);
  gshmem_finalize();
  return got == (me + n - 1) % n ? 0 : 1;
}

#include <gshmem/gshmem.h>

#include <cstdio>

int main() {
  gshmem_init();
  std::printf("PE %d of %d\n", gshmem_my_pe(), gshmem_n_pes());
  gshmem_finalize();
  return 0;
}

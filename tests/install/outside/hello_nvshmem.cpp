#include <nvshmem.h>

#include <cstdio>

int main() {
  nvshmem_init();
  std::printf("PE %d of %d\n", nvshmem_my_pe(), nvshmem_n_pes());
  nvshmem_finalize();
  return 0;
}

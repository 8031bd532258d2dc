#include <gshmem/gshmem.h>

#include <cstdio>

void put_my_number(int* next);

int main() {
  gshmem_init();
  auto* const next = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
  put_my_number(next);
  gshmem_barrier_all();
  std::printf("PE %d of %d\n", *next, gshmem_n_pes());
  gshmem_free(next);
  gshmem_finalize();
  return 0;
}

#include <gshmem/gshmem.h>

void put_my_number(int* next) {
  gshmem_int_p(next, gshmem_my_pe(), (gshmem_my_pe() + 1) % gshmem_n_pes());
}

// A program with NVSHMEM's names that has no fence between a put and a signal. Checkers name the
// lines of the program, not those of the headers that have these names.
#include <nvshmem.h>
#include <nvshmemx.h>

#include <cstdint>
#include <cstdio>

int main() {
  nvshmem_init();
  const int next = (nvshmem_my_pe() + 1) % nvshmem_n_pes();
  long* dest = static_cast<long*>(nvshmem_calloc(2, sizeof(long)));
  long* source = dest + 1;
  std::uint64_t* signal = static_cast<std::uint64_t*>(nvshmem_calloc(1, sizeof(std::uint64_t)));
  nvshmem_barrier_all();
  nvshmem_long_put_nbi(dest, source, 1, next);              // line 16
  nvshmemx_signal_op(signal, 1, NVSHMEM_SIGNAL_SET, next);  // line 17
  nvshmem_signal_wait_until(signal, NVSHMEM_CMP_EQ, 1);
  std::printf("%ld\n", *dest);  // line 19
  nvshmem_barrier_all();
  nvshmem_finalize();
}

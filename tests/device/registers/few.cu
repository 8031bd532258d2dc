// Kernels with few registers: a block of 1024 threads allows at most 64, two of them on an SM 32.
// The compiler has to fit the library's code into them, also in relocatable code, where it does so
// only for functions of this unit.
#include <gshmem/gshmem.h>

#include <cstddef>
#include <cstdint>

struct Work {
  char *dest, *source;
  std::size_t bytes;
  std::uint64_t* word;
  gshmem_team_t team;
  int pe;
};

#define WITH_BLOCKS(N)                                                                            \
  extern "C" __global__ void __launch_bounds__(1024, N) few_##N(Work work) {                      \
    gshmem_putmem(work.dest, work.source, work.bytes, work.pe);                                   \
    gshmemx_getmem_warp(work.dest, work.source, work.bytes, work.pe);                             \
    gshmemx_putmem_nbi_block(work.dest, work.source, work.bytes, work.pe);                        \
    gshmemx_putmem_signal_block(work.dest, work.source, work.bytes, work.word, 1,                 \
                                GSHMEM_SIGNAL_ADD, work.pe);                                      \
    gshmem_uint64_p(work.word, gshmem_uint64_g(work.word, work.pe), work.pe);                     \
    gshmem_uint64_atomic_add(work.word, gshmem_uint64_atomic_fetch(work.word, work.pe), work.pe); \
    gshmem_signal_wait_until(work.word, GSHMEM_CMP_GE, 1);                                        \
    gshmem_quiet();                                                                               \
    gshmemx_barrier_all_block();                                                                  \
    *work.word = static_cast<std::uint64_t>(gshmemx_barrier_block(work.team));                    \
  }
WITH_BLOCKS(1)
WITH_BLOCKS(2)

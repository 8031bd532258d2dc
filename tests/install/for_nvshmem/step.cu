// Device code in a unit of its own, called across units (-dc).
#include <device_host/nvshmem_common.cuh>
#include <nvshmem.h>

__device__ void step_to(int* dest, const int* source, int n, int pe) {
  namespace cg = cooperative_groups;
  nvshmemx_int_put_nbi_block(dest, source, n, pe);
  cg::this_thread_block().sync();
  if (cg::this_thread_block().thread_rank() == 0) nvshmem_quiet();
}

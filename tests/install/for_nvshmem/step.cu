// Device code in a unit of its own, called across units (-dc).
#include <device/nvshmem_device_macros.h>
#include <device_host/nvshmem_common.cuh>
#include <device_host_transport/nvshmem_common_transport.h>
#include <non_abi/device/threadgroup/nvshmemi_common_device_defines.cuh>
#include <nvshmem.h>

NVSHMEMI_STATIC __device__ NVSHMEMI_DEVICE_ALWAYS_FORCE_INLINE bool is_first() {
  return cooperative_groups::this_thread_block().thread_rank() == 0;
}
__device__ NVSHMEMI_NOINLINE void step_to(int* dest, const int* source, int n, int pe) {
  namespace cg = cooperative_groups;
  static_assert(NVSHMEM_SIGNAL_SET == 9, "as in nvshmem_common_transport.h");
  nvshmemx_int_put_nbi_block(dest, source, n, pe);
  cg::this_thread_block().sync();
  if (is_first()) nvshmem_quiet();
}

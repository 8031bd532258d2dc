/* C, nvshmem.h alone: its nvshmemx_ names and the standard headers that it brings. */
#include <nvshmem.h>

int main(void) {
  int* word;
  int mype, npes, got, major, minor, patch;
  nvshmem_init();
  mype = nvshmem_my_pe();
  npes = nvshmem_n_pes();
  nvshmemx_vendor_get_version_info(&major, &minor, &patch);
  if (major * 10000 + minor * 100 + patch != NVSHMEM_VENDOR_VERSION) return 1;
  assert(nvshmemx_init_status() >= NVSHMEM_STATUS_IS_INITIALIZED);
  word = (int*)nvshmem_malloc(sizeof(*word));
  if (word == NULL) return 1;
  nvshmem_int_p(word, 7 + mype, (mype + 1) % npes);
  nvshmem_barrier_all();
  got = nvshmem_int_g(word, mype);
  nvshmem_free(word);
  if (got != 7 + (mype + npes - 1) % npes) return 1;
  printf("PE %d of %d\n", mype, npes);
  nvshmem_finalize();
  return 0;
}

// A framework's extension for NVSHMEM: inline functions of the headers, in a library that the
// framework loads with local names.
#include <non_abi/nvshmemx_error.h>
#include <nvshmem.h>
#include <nvshmemx.h>

/// Adds 37 to a word of the job that the framework has joined; returns -1 if this library knows no
/// job.
extern "C" long extension_add(long* word, int pe) {
  if (nvshmemx_init_status() < NVSHMEM_STATUS_IS_INITIALIZED) return -1;
  return nvshmem_long_atomic_fetch_add(word, 37, pe);
}

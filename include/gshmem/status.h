// Status codes of the C API: one table, one string per code. Included by every public header and by
// the host library; C11, C++17 and CUDA. The first eight values equal NVSHMEM's, so programs that
// compare numbers keep working.
#pragma once

/// X(NAME, VALUE, TEXT): every status code of the library.
#define GSHMEM_STATUS_TABLE(X)                                     \
  X(SUCCESS, 0, "success")                                         \
  X(ERROR_INVALID_VALUE, 1, "invalid value")                       \
  X(ERROR_OUT_OF_MEMORY, 2, "out of memory")                       \
  X(ERROR_NOT_SUPPORTED, 3, "not supported")                       \
  X(ERROR_SYMMETRY, 4, "arguments differ between PEs")             \
  X(ERROR_GPU_NOT_SELECTED, 5, "no GPU selected")                  \
  X(ERROR_COLLECTIVE_LAUNCH_FAILED, 6, "collective launch failed") \
  X(ERROR_INTERNAL, 7, "internal error")                           \
  X(ERROR_NOT_INITIALIZED, 8, "library is not initialized")        \
  X(ERROR_BOOTSTRAP, 9, "bootstrap failed")                        \
  X(ERROR_CONFIG, 10, "bad configuration value")                   \
  X(ERROR_TIMEOUT, 11, "timed out")                                \
  X(ERROR_PEER_FAILED, 12, "another PE failed")                    \
  X(ERROR_CUDA, 13, "CUDA driver call failed")                     \
  X(ERROR_SYSTEM, 14, "operating system call failed")              \
  X(ERROR_NIC, 15, "network card reported an error")

enum gshmemx_status {
#define GSHMEM_STATUS_ENUM(name, value, text) GSHMEMX_##name = value,
  GSHMEM_STATUS_TABLE(GSHMEM_STATUS_ENUM)
#undef GSHMEM_STATUS_ENUM
};

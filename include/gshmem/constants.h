// Constants of the C API. Values equal NVSHMEM's, so that code that stores or prints them agrees.
// C11, C++17 and CUDA.
#pragma once

enum gshmem_cmp {  ///< OpenSHMEM 1.5, section 9.10
  GSHMEM_CMP_EQ = 0,
  GSHMEM_CMP_NE = 1,
  GSHMEM_CMP_GT = 2,
  GSHMEM_CMP_LE = 3,
  GSHMEM_CMP_LT = 4,
  GSHMEM_CMP_GE = 5
};

enum gshmem_signal_op { GSHMEM_SIGNAL_SET = 9, GSHMEM_SIGNAL_ADD = 10 };  ///< section 9.8

enum gshmem_thread_support {  ///< section 9.2
  GSHMEM_THREAD_SINGLE = 0,
  GSHMEM_THREAD_FUNNELED = 1,
  GSHMEM_THREAD_SERIALIZED = 2,
  GSHMEM_THREAD_MULTIPLE = 3
};

#define GSHMEM_MAJOR_VERSION 1 /* OpenSHMEM specification implemented: 1.5 */
#define GSHMEM_MINOR_VERSION 5
#define GSHMEM_MAX_NAME_LEN 256
#define GSHMEM_VENDOR_STRING "gshmem v0.1.0"
#define GSHMEM_VENDOR_MAJOR_VERSION 0
#define GSHMEM_VENDOR_MINOR_VERSION 1
#define GSHMEM_VENDOR_PATCH_VERSION 0

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

enum gshmem_predefined_team {  ///< values of gshmem_team_t: section 9.4
  GSHMEM_TEAM_INVALID = -1,
  GSHMEM_TEAM_WORLD = 0,           ///< all PEs
  GSHMEM_TEAM_SHARED = 1,          ///< PEs whose memory gshmem_ptr reaches
  GSHMEMX_TEAM_NODE = 2,           ///< PEs of this host; its my_pe suits cudaSetDevice
  GSHMEMX_TEAM_SAME_MYPE_NODE = 3  ///< PEs that have the same number in their host's team
};

#define GSHMEM_MAJOR_VERSION 1 /* OpenSHMEM specification implemented: 1.5 */
#define GSHMEM_MINOR_VERSION 5
#define GSHMEM_MAX_NAME_LEN 256
#define GSHMEM_VENDOR_STRING "gshmem v0.1.0"
#define GSHMEM_VENDOR_MAJOR_VERSION 0
#define GSHMEM_VENDOR_MINOR_VERSION 1
#define GSHMEM_VENDOR_PATCH_VERSION 0

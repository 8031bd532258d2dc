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

/// OpenSHMEM 1.5, section 9.8.
enum gshmem_signal_op { GSHMEM_SIGNAL_SET = 9, GSHMEM_SIGNAL_ADD = 10 };

enum gshmem_thread_support {  ///< OpenSHMEM 1.5, section 9.2
  GSHMEM_THREAD_SINGLE = 0,
  GSHMEM_THREAD_FUNNELED = 1,
  GSHMEM_THREAD_SERIALIZED = 2,
  GSHMEM_THREAD_MULTIPLE = 3
};

enum gshmem_predefined_team {  ///< values of gshmem_team_t: OpenSHMEM 1.5, section 9.4
  GSHMEM_TEAM_INVALID = -1,
  GSHMEM_TEAM_WORLD = 0,           ///< all PEs
  GSHMEM_TEAM_SHARED = 1,          ///< PEs whose memory gshmem_ptr reaches
  GSHMEMX_TEAM_NODE = 2,           ///< PEs of this host; its my_pe suits cudaSetDevice
  GSHMEMX_TEAM_SAME_MYPE_NODE = 3  ///< PEs that have the same number in their host's team
};

/// OpenSHMEM 1.5, section 9.4: the fields of gshmem_team_config_t to use.
enum gshmem_team_config_mask { GSHMEM_TEAM_NUM_CONTEXTS = 1, GSHMEMX_TEAM_UNIQUEID = 2 };

enum gshmem_malloc_hints {  ///< hints of gshmem_malloc_with_hints: section 9.3
  GSHMEM_MALLOC_ATOMICS_REMOTE = 1,
  GSHMEM_MALLOC_SIGNAL_REMOTE = 2
};

enum gshmem_predefined_ctx {  ///< values of gshmem_ctx_t: section 9.5
  GSHMEM_CTX_INVALID = -1,
  GSHMEM_CTX_DEFAULT = 1
};
enum gshmem_ctx_options {  ///< options of gshmem_ctx_create
  GSHMEM_CTX_SERIALIZED = 1,
  GSHMEM_CTX_PRIVATE = 2,
  GSHMEM_CTX_NOSTORE = 4
};

enum gshmem_ctx_session {  ///< for gshmem_ctx_session_start: options, and the fields to use
  GSHMEM_CTX_SESSION_BATCH = 1,
  GSHMEM_CTX_SESSION_TOTAL_OPS = 1
};

enum gshmemx_region_hint {  ///< or-ed in gshmemx_region_attrs_t
  GSHMEMX_REGION_HINT_NONE = 0,
  GSHMEMX_REGION_HINT_BATCH_RMA = 1  ///< puts and gets without a wait may be batched
};

enum gshmemx_smem_amount {        ///< amounts of gshmemx_ask_smem
  GSHMEMX_SMEM_RECOMMENDED = 0,   ///< for long copies
  GSHMEMX_SMEM_MINIMUM = 1,       ///< if shared memory is scarce
  GSHMEMX_SMEM_BARRIERS_ONLY = 2  ///< if all sources are in shared memory
};

enum gshmemx_qp_handle {  ///< values of gshmemx_qp_handle_t
  GSHMEMX_QP_HOST = 0,    ///< the queues of host threads, which are the default ones
  GSHMEMX_QP_DEFAULT = 1,
  GSHMEMX_QP_ANY = 0x7fffffff,  ///< for transfers: any queue; the default ones are used
  GSHMEMX_QP_ALL = 0x7fffffff   ///< for fence and quiet: every queue of the PE
};
enum gshmemx_pe_index {  ///< for gshmemx_qp_fence and _quiet: all PEs
  GSHMEMX_PE_ANY = 1 << 15,
  GSHMEMX_PE_ALL = 1 << 15
};

#define GSHMEM_MAJOR_VERSION 1 /* OpenSHMEM specification implemented: 1.5 */
#define GSHMEM_MINOR_VERSION 5
#define GSHMEM_MAX_NAME_LEN 256
#define GSHMEM_VENDOR_STRING "gshmem v0.1.0"
#define GSHMEM_VENDOR_MAJOR_VERSION 0
#define GSHMEM_VENDOR_MINOR_VERSION 1
#define GSHMEM_VENDOR_PATCH_VERSION 0

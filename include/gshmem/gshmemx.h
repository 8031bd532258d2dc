// gshmem extensions to OpenSHMEM that are not in functions.h: init with attributes, several PEs
// per process, modules loaded by hand, faults and status strings. Included by gshmem.h. C11, C++17,
// CUDA.
#pragma once

#include "gshmem.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Init with attributes -----------------------------------------------------------------------
enum gshmemx_init_flags {
  GSHMEMX_INIT_DEFAULT = 0,        ///< as gshmem_init, with the attributes that apply
  GSHMEMX_INIT_THREAD_PES = 1,     ///< this thread is a PE: gshmemx_set_attr_thread_args
  GSHMEMX_INIT_WITH_MPI_COMM = 2,  ///< attr->mpi_comm is the address of an MPI_Comm
  GSHMEMX_INIT_WITH_UNIQUEID = 8   ///< gshmemx_set_attr_uniqueid_args
};

enum gshmemx_init_state {
  GSHMEMX_INIT_STATUS_NOT_INITIALIZED = 0,
  GSHMEMX_INIT_STATUS_IS_BOOTSTRAPPED = 1,
  GSHMEMX_INIT_STATUS_IS_INITIALIZED = 2,
  GSHMEMX_INIT_STATUS_LIMITED_MPG = 3,  ///< initialized; the GPU is shared by several PEs
  GSHMEMX_INIT_STATUS_FULL_MPG = 4      ///< shared through MPS, by a process each
};

typedef struct gshmemx_uniqueid_args {
  int version;
  gshmemx_uniqueid_t* id;
  int myrank;
  int nranks;
} gshmemx_uniqueid_args_t;

/// PEs of one process as threads; see gshmemx_thread_world_create.
typedef struct gshmemx_thread_world gshmemx_thread_world_t;

typedef struct gshmemx_init_args {
  int version;
  gshmemx_uniqueid_args_t uid_args;
  int cuda_device_id;       ///< GPU of this PE; -1 = the current one, else by local rank
  int thread_rank;          ///< rank within thread_world
  uint64_t symmetric_size;  ///< bytes of heap; 0 = GSHMEM_SYMMETRIC_SIZE
  gshmemx_thread_world_t* thread_world;
  char reserved[72];
} gshmemx_init_args_t;

typedef struct gshmemx_init_attr {
  int version;
  void* mpi_comm;
  gshmemx_init_args_t args;
} gshmemx_init_attr_t;

#define GSHMEMX_INIT_ATTR_VERSION ((2 << 16) + 144) /* as NVSHMEM's: number and size */
#define GSHMEMX_UNIQUEID_VERSION 1
#define GSHMEMX_UNIQUEID_INITIALIZER \
  {                                  \
    GSHMEMX_UNIQUEID_VERSION, { 0 }  \
  }
#define GSHMEMX_UNIQUEID_ARGS_INITIALIZER \
  { GSHMEMX_UNIQUEID_VERSION, 0, 0, 0 }
#define GSHMEMX_INIT_ATTR_INITIALIZER                                                   \
  {                                                                                     \
    GSHMEMX_INIT_ATTR_VERSION, 0, {                                                     \
      GSHMEMX_INIT_ATTR_VERSION, GSHMEMX_UNIQUEID_ARGS_INITIALIZER, -1, -1, 0, 0, { 0 } \
    }                                                                                   \
  }

/// Collective init with attributes; `flags` is one of gshmemx_init_flags. Of an attr that did not
/// start from GSHMEMX_INIT_ATTR_INITIALIZER only what `flags` names is read: mpi_comm, or what
/// gshmemx_set_attr_uniqueid_args set. Returns a status; errors name the attribute, or the rank and
/// reason of the PE that failed.
GSHMEM_EXPORT int gshmemx_init_attr(unsigned int flags, gshmemx_init_attr_t* attr);
/// One of gshmemx_init_state, for the calling thread's PE.
GSHMEM_EXPORT int gshmemx_init_status(void);
/// Makes an id on one PE, which should become a rank of the job: its process keeps a listening
/// socket until the job has formed. Errors: GSHMEMX_ERROR_BOOTSTRAP without a usable network
/// address.
GSHMEM_EXPORT int gshmemx_get_uniqueid(gshmemx_uniqueid_t* uniqueid);
/// Fill `attr` for GSHMEMX_INIT_WITH_UNIQUEID, _WITH_MPI_COMM and _THREAD_PES. What the pointers
/// point to must live until gshmemx_init_attr. Errors: GSHMEMX_ERROR_INVALID_VALUE naming the
/// argument.
GSHMEM_EXPORT int gshmemx_set_attr_uniqueid_args(int myrank, int nranks,
                                                 const gshmemx_uniqueid_t* uniqueid,
                                                 gshmemx_init_attr_t* attr);
GSHMEM_EXPORT int gshmemx_set_attr_mpi_comm_args(void* mpi_comm, gshmemx_init_attr_t* attr);
GSHMEM_EXPORT int gshmemx_set_attr_thread_args(gshmemx_thread_world_t* world, int rank,
                                               gshmemx_init_attr_t* attr);

// --- Memory outside of the heap
// -------------------------------------------------------------------- Any memory may be the local
// side of a transfer as it is, and is no faster for being registered. These are for programs that
// tell: they keep an account of it. Local, for the calling thread's PE.
/// `length` bytes at `addr`. Returns a status: GSHMEMX_ERROR_INVALID_VALUE for null, no bytes, more
/// than there is, what is in the symmetric heap, or has bytes in common with what is registered.
GSHMEM_EXPORT int gshmemx_buffer_register(void* addr, size_t length);
/// What gshmemx_buffer_register got; else GSHMEMX_ERROR_INVALID_VALUE.
GSHMEM_EXPORT int gshmemx_buffer_unregister(void* addr);
GSHMEM_EXPORT void gshmemx_buffer_unregister_all(void);

// --- Memory of the program as symmetric memory ---------------------------------------------------
// Other addresses for the same bytes: what the program has at `buf_ptr` stays there, too, and stays
// its own. Registered memory has a place beside the heap (GSHMEM_REGISTERED_SIZE), the same on all
// PEs, and is as good there as that of gshmem_malloc for every call, but for realloc and free.
/// Collective, with the same `size` everywhere: the symmetric address of `size` bytes at `buf_ptr`.
/// On a GPU whole allocations of cuMemCreate of this PE's GPU, with a POSIX file descriptor as
/// handle, mapped one after the other; in CPU mode whole pages of mmap with MAP_SHARED, of a file
/// that is open. `flags` is 0. Null on errors, on all PEs alike, with the reason in the log:
/// GSHMEMX_ERROR_SYMMETRY; GSHMEMX_ERROR_INVALID_VALUE for null, no bytes, parts of allocations,
/// flags, what is symmetric already, or has bytes in common with what is registered;
/// GSHMEMX_ERROR_NOT_SUPPORTED for other memory, and in jobs that map heaps by fabric handles;
/// GSHMEMX_ERROR_NIC for what a NIC does not reach; GSHMEMX_ERROR_OUT_OF_MEMORY for more than
/// GSHMEM_REGISTERED_SIZE, or 256 buffers. Source: as nvshmemx_buffer_register_symmetric.
GSHMEM_EXPORT void* gshmemx_buffer_register_symmetric(void* buf_ptr, size_t size, int flags);
/// As gshmemx_buffer_register_symmetric, at `preferred_addr` where that has the same distance from
/// the heap on all PEs, and is free, aligned and in the place for registered memory; else
/// elsewhere. Null: no wish.
GSHMEM_EXPORT void* gshmemx_buffer_register_symmetric_at_preferred_address(void* buf_ptr,
                                                                           size_t size,
                                                                           void* preferred_addr,
                                                                           int flags);
/// Collective: ends it for the memory at `mmap_ptr`, with its `size`; what is at `buf_ptr` stays.
/// No PE is using it by then. Returns a status, an error on all PEs alike: GSHMEMX_ERROR_SYMMETRY;
/// GSHMEMX_ERROR_INVALID_VALUE for what is not registered, or not with that size.
GSHMEM_EXPORT int gshmemx_buffer_unregister_symmetric(void* mmap_ptr, size_t size);

// --- Teams of any PEs ----------------------------------------------------------------------------
// As NVSHMEM's: one PE makes an id and gives it to the others by whatever way it has, a put for
// instance. The PEs need no team in common but the world, and PEs that do not come need not know.
/// Local. The id is of one team; the PE that has made it need not be a member. Returns a status.
GSHMEM_EXPORT int gshmemx_team_get_uniqueid(gshmemx_team_uniqueid_t* uniqueid);
/// Collective over the `npes` PEs that come with `config->uniqueid`: a team in which the calling PE
/// is number `pe_idx_in_team`. `config_mask` has GSHMEMX_TEAM_UNIQUEID. Returns a status, the same
/// kind on all that come, and GSHMEM_TEAM_INVALID in `*team` where it is none:
/// GSHMEMX_ERROR_INVALID_VALUE for an id that no PE has made, a number that is out of range or of
/// two PEs; GSHMEMX_ERROR_SYMMETRY where `npes` differs; GSHMEMX_ERROR_TIMEOUT when not all come
/// within GSHMEM_TIMEOUT, which ends it for all; GSHMEMX_ERROR_OUT_OF_MEMORY as
/// gshmem_team_split_strided. After an error the id is of no use.
GSHMEM_EXPORT int gshmemx_team_init(gshmem_team_t* team, gshmem_team_config_t* config,
                                    long config_mask, int npes, int pe_idx_in_team);

// --- Several PEs per process ---------------------------------------------------------------------
// Each PE is initialized on its own host thread, which belongs to it from then on; a process with
// one PE needs none of this, all its threads belong to that PE.
/// A world of `n_pes` PEs in this process, to be joined by that many threads. Null if n_pes is not
/// in [1, 65536], or there is no memory for so many.
GSHMEM_EXPORT gshmemx_thread_world_t* gshmemx_thread_world_create(int n_pes);
/// After the last finalize of its PEs. Null is fine.
GSHMEM_EXPORT void gshmemx_thread_world_destroy(gshmemx_thread_world_t* world);
/// The PE the calling thread belongs to (null = none), and joining it on another thread (null =
/// leave).
GSHMEM_EXPORT void* gshmemx_pe_handle(void);
GSHMEM_EXPORT int gshmemx_bind_thread(void* pe_handle);

// --- Queue handles -------------------------------------------------------------------------------
// A handle is a work queue to every PE, for gshmemx_qp_ functions and, as a context, for
// gshmem_ctx_ ones. Any number of threads may share it. Host only.
/// Collective, with the same `num_qps` everywhere: that many handles, in an array that the caller
/// frees (free()). All PEs get theirs or none does. They are this PE's; numbers differ between PEs.
/// Where every PE is mapped they cost nothing. Returns a status: GSHMEMX_ERROR_SYMMETRY,
/// GSHMEMX_ERROR_INVALID_VALUE, GSHMEMX_ERROR_OUT_OF_MEMORY beyond 1024 contexts and handles or
/// what the NIC has, GSHMEMX_ERROR_NIC.
GSHMEM_EXPORT int gshmemx_qp_create(int num_qps, gshmemx_qp_handle_t** out_qp_array);
/// Local. Quiet of each, then gone; their queues serve later handles and contexts of this PE. No
/// thread may be using them. The array is left to the caller. Returns a status; when one of them is
/// not open, or named twice, GSHMEMX_ERROR_INVALID_VALUE and no effect.
GSHMEM_EXPORT int gshmemx_qp_destroy(int num_qps, const gshmemx_qp_handle_t* qps);

// --- Regions -------------------------------------------------------------------------------------
// Of a PE's host threads; functions.h has those of blocks, and gshmemx_region_is_active. Hints,
// which change no call and no order here: puts and gets without a wait have only begun when they
// return.
/// Local. Opens the region of the PE's host threads, with the hints of `attrs` (null: none), to
/// `*handle`. Returns a status: GSHMEMX_ERROR_INVALID_VALUE for a null handle, unknown hints, and
/// while a region is open; GSHMEMX_ERROR_NOT_INITIALIZED.
GSHMEM_EXPORT int gshmemx_region_start(gshmemx_region_handle_t* handle,
                                       const gshmemx_region_attrs_t* attrs);
/// Local. Closes it, and completes nothing. Returns a status: GSHMEMX_ERROR_INVALID_VALUE for what
/// is not the handle of the open region; GSHMEMX_ERROR_NOT_INITIALIZED.
GSHMEM_EXPORT int gshmemx_region_stop(gshmemx_region_handle_t region);

// --- Streams -------------------------------------------------------------------------------------
/// cudaStream_t and CUstream. stream_functions.h has the functions that take one,
/// stream_functions.def what they promise.
struct CUstream_st;
typedef struct CUstream_st* gshmemx_stream_t;
#include <gshmem/stream_functions.h>

// --- Modules loaded by hand ----------------------------------------------------------------------
// For code that includes gshmem.h and is loaded with cuModuleLoad*: fills the module's device
// state. Errors: GSHMEMX_ERROR_INVALID_VALUE for a module without one, GSHMEMX_ERROR_NOT_SUPPORTED
// in CPU mode, GSHMEMX_ERROR_CUDA.
struct CUmod_st;
GSHMEM_EXPORT int gshmemx_cumodule_init(struct CUmod_st* module);
/// Kernels of the module trap with a message from now on.
GSHMEM_EXPORT int gshmemx_cumodule_finalize(struct CUmod_st* module);
/// Fills the device state of a library of cuLibraryLoad*, on the GPU of the calling thread's PE.
/// Errors: those of gshmemx_cumodule_init.
struct CUlib_st;
GSHMEM_EXPORT int gshmemx_culibrary_init(struct CUlib_st* library);
GSHMEM_EXPORT int gshmemx_culibrary_finalize(struct CUlib_st* library);

// --- Faults --------------------------------------------------------------------------------------
typedef struct gshmemx_fault {
  int code;                                         ///< gshmemx_status; GSHMEMX_SUCCESS = no fault
  int pe;                                           ///< PE concerned, -1 = none
  unsigned int queue, wqe_index, opcode, syndrome;  ///< network path only, else 0
  char message[512];                                ///< one line, complete sentence
} gshmemx_fault_t;

/// First fault of the calling thread's PE since init, or why init failed. Returns its code; `info`
/// may be null. Threads: any, also while kernels run.
GSHMEM_EXPORT int gshmemx_last_fault(gshmemx_fault_t* info);
/// Text of a gshmemx_status; "unknown status" for any other number.
GSHMEM_EXPORT const char* gshmemx_status_string(int status);
/// Version of this library. (gshmem_info_get_version: of the specification.) Null is fine for what
/// is not wanted.
GSHMEM_EXPORT void gshmemx_vendor_get_version_info(int* major, int* minor, int* patch);

#ifdef __cplusplus
}
#endif

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#include "collective_launch.h"
#endif

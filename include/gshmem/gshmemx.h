// gshmem extensions to OpenSHMEM that are not in functions.h: init with attributes, several PEs
// per process, modules that the program loads, faults and status strings. Included by gshmem.h.
// C11, C++17, CUDA.
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
  int thread_rank;          ///< PEs of one process as threads; see gshmemx_thread_world_create.
  uint64_t symmetric_size;  ///< bytes that the heap begins with; 0 = GSHMEM_SYMMETRIC_SIZE
  gshmemx_thread_world_t* thread_world;
  char reserved[72];
} gshmemx_init_args_t;

typedef struct {
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

/// Collective init with attributes; `flags` is one of gshmemx_init_flags. If an attr did not start
/// from GSHMEMX_INIT_ATTR_INITIALIZER, only the fields that `flags` selects are read: mpi_comm, or
/// those that gshmemx_set_attr_uniqueid_args set. Returns a status; errors name the attribute, or
/// the rank and reason of the PE that failed.
GSHMEM_EXPORT int gshmemx_init_attr(unsigned int flags, gshmemx_init_attr_t* attr);
/// Returns one of gshmemx_init_state, for the calling thread's PE.
GSHMEM_EXPORT int gshmemx_init_status(void);
/// Makes an id on one PE, which should become a rank of the job: its process keeps a listening
/// socket until the job has formed. Errors: GSHMEMX_ERROR_BOOTSTRAP without a usable network
/// address.
GSHMEM_EXPORT int gshmemx_get_uniqueid(gshmemx_uniqueid_t* uniqueid);
/// Fill `attr` for GSHMEMX_INIT_WITH_UNIQUEID, _WITH_MPI_COMM and _THREAD_PES. The objects that the
/// pointers refer to must live until gshmemx_init_attr. Errors: GSHMEMX_ERROR_INVALID_VALUE, which
/// names the argument.
GSHMEM_EXPORT int gshmemx_set_attr_uniqueid_args(int myrank, int nranks,
                                                 const gshmemx_uniqueid_t* uniqueid,
                                                 gshmemx_init_attr_t* attr);
GSHMEM_EXPORT int gshmemx_set_attr_mpi_comm_args(void* mpi_comm, gshmemx_init_attr_t* attr);
GSHMEM_EXPORT int gshmemx_set_attr_thread_args(gshmemx_thread_world_t* world, int rank,
                                               gshmemx_init_attr_t* attr);

// --- Memory outside of the heap ------------------------------------------------------------------
// Any memory may be the local side of a transfer. If it is registered, the PE's NICs access it
// themselves, in calls of kernels, streams and CPU mode. Calls of host threads on heaps of GPUs
// copy it to the heap first, registered or not. To mapped PEs this changes nothing. Local, for the
// calling thread's PE.
/// Registers `length` bytes at `addr`: host memory, or memory of a GPU. Call it again after other
/// memory has been mapped there: a range that is registered is registered anew. No transfer from or
/// to it may be pending then. If a NIC cannot access it, or 256 other ranges are registered,
/// transfers work as without registration, and a warning has the reason. Returns a status:
/// GSHMEMX_ERROR_INVALID_VALUE for null, no bytes, a length beyond the address space, memory in the
/// symmetric heap, or memory of which a part is registered.
GSHMEM_EXPORT int gshmemx_buffer_register(void* addr, size_t length);
/// Ends a registration by gshmemx_buffer_register, before the memory is freed; for another address
/// returns GSHMEMX_ERROR_INVALID_VALUE. No transfer from or to it may be pending.
GSHMEM_EXPORT int gshmemx_buffer_unregister(void* addr);
GSHMEM_EXPORT void gshmemx_buffer_unregister_all(void);

// --- Memory of the program as symmetric memory ---------------------------------------------------
// These functions map the same bytes at other addresses: the program's memory at `buf_ptr` remains
// mapped there, too, and still belongs to the program. Registered memory is in a range after the
// heap (GSHMEM_REGISTERED_SIZE), at the same offset on all PEs. There every call accepts it like
// memory of gshmem_malloc, except realloc and free.
/// Collective, with the same `size` everywhere: returns the symmetric address of `size` bytes at
/// `buf_ptr`. On a GPU the memory must be whole allocations of cuMemCreate of this PE's GPU, with a
/// POSIX file descriptor as handle, mapped one after the other. In CPU mode it must be whole pages
/// of mmap with MAP_SHARED, of a file that is open. `flags` is 0. Returns null on errors, on all
/// PEs, with the reason in the log: GSHMEMX_ERROR_SYMMETRY; GSHMEMX_ERROR_INVALID_VALUE for
/// null, no bytes, parts of allocations, flags, symmetric memory, or memory that overlaps
/// registered memory; GSHMEMX_ERROR_NOT_SUPPORTED for other memory, and in jobs that map heaps by
/// fabric handles; GSHMEMX_ERROR_NIC for memory that a NIC cannot access;
/// GSHMEMX_ERROR_OUT_OF_MEMORY for more than GSHMEM_REGISTERED_SIZE. Source: as
/// nvshmemx_buffer_register_symmetric.
GSHMEM_EXPORT void* gshmemx_buffer_register_symmetric(void* buf_ptr, size_t size, int flags);
/// Does what gshmemx_buffer_register_symmetric does, at `preferred_addr` if that has the same
/// distance from the heap on all PEs, and is free, aligned and in the range for registered memory;
/// otherwise elsewhere. Null: no preference.
GSHMEM_EXPORT void* gshmemx_buffer_register_symmetric_at_preferred_address(void* buf_ptr,
                                                                           size_t size,
                                                                           void* preferred_addr,
                                                                           int flags);
/// Collective: ends the registration of the memory at `mmap_ptr`, with its `size`; the memory at
/// `buf_ptr` remains. No PE may be using it. Returns a status, an error on all PEs:
/// GSHMEMX_ERROR_SYMMETRY; GSHMEMX_ERROR_INVALID_VALUE for an address that is not registered, or
/// not with that size.
GSHMEM_EXPORT int gshmemx_buffer_unregister_symmetric(void* mmap_ptr, size_t size);

// --- Teams of any PEs ----------------------------------------------------------------------------
// As in NVSHMEM, one PE makes an id and sends it to the others in any way, for example by a put.
// The PEs need no team in common but the world, and PEs that do not take part need not know the id.
/// Local. The id is for one team; the PE that has made it need not be a member. Returns a status.
GSHMEM_EXPORT int gshmemx_team_get_uniqueid(gshmemx_team_uniqueid_t* uniqueid);
/// Collective over the `npes` PEs that call it with `config->uniqueid`: makes a team in which the
/// calling PE is number `pe_idx_in_team`. `config_mask` has GSHMEMX_TEAM_UNIQUEID. Returns a
/// status, the same kind on all callers, and GSHMEM_TEAM_INVALID in `*team` on error:
/// GSHMEMX_ERROR_INVALID_VALUE for an id that no PE has made, or a number that is out of range or
/// used twice; GSHMEMX_ERROR_SYMMETRY if `npes` differs; GSHMEMX_ERROR_TIMEOUT when not all PEs
/// call it within GSHMEM_TIMEOUT, which ends it for all; GSHMEMX_ERROR_OUT_OF_MEMORY as
/// gshmem_team_split_strided. After an error the id cannot be used.
GSHMEM_EXPORT int gshmemx_team_init(gshmem_team_t* team, gshmem_team_config_t* config,
                                    long config_mask, int npes, int pe_idx_in_team);

// --- Several PEs per process ---------------------------------------------------------------------
// Each PE is initialized on its own host thread, which belongs to it from then on. A process with
// one PE needs none of this: all its threads belong to that PE.
/// Makes a world of `n_pes` PEs in this process, to be joined by that many threads. Null if n_pes
/// is not in [1, 65536], or there is not enough memory.
GSHMEM_EXPORT gshmemx_thread_world_t* gshmemx_thread_world_create(int n_pes);
/// Call it after the last finalize of its PEs. Null is allowed.
GSHMEM_EXPORT void gshmemx_thread_world_destroy(gshmemx_thread_world_t* world);
/// Return the PE that the calling thread belongs to (null = none), and let another thread join it
/// (null = leave).
GSHMEM_EXPORT void* gshmemx_pe_handle(void);
GSHMEM_EXPORT int gshmemx_bind_thread(void* pe_handle);

// --- Queue handles -------------------------------------------------------------------------------
// A handle is a work queue to every PE, for gshmemx_qp_ functions and, as a context, for
// gshmem_ctx_ ones. Any number of threads may share it. Host only.
/// Collective, with the same `num_qps` everywhere: makes that many handles, in an array that the
/// caller frees (free()). Either all PEs get theirs or none does. They are valid on this PE only;
/// their numbers differ between PEs. If every PE is mapped they cost nothing. Returns a status:
/// GSHMEMX_ERROR_SYMMETRY, GSHMEMX_ERROR_INVALID_VALUE, GSHMEMX_ERROR_OUT_OF_MEMORY beyond 1024
/// contexts and handles or the limits of the NIC, GSHMEMX_ERROR_NIC.
GSHMEM_EXPORT int gshmemx_qp_create(int num_qps, gshmemx_qp_handle_t** out_qp_array);
/// Local. Calls quiet of each handle and destroys it; later handles and contexts of this PE reuse
/// the queues. No thread may be using them. The caller still owns the array. Returns a status:
/// GSHMEMX_ERROR_INVALID_VALUE, without an effect, when one of them is not open or is named twice.
GSHMEM_EXPORT int gshmemx_qp_destroy(int num_qps, const gshmemx_qp_handle_t* qps);

// --- Regions -------------------------------------------------------------------------------------
// Regions of a PE's host threads; functions.h has those of blocks, and gshmemx_region_is_active.
// They are hints, which change no call and no order: puts and gets without a wait are only started
// when they return.
/// Local. Opens the region of the PE's host threads, with the hints of `attrs` (null: none), and
/// stores its handle in `*handle`. Returns a status: GSHMEMX_ERROR_INVALID_VALUE for a null handle,
/// unknown hints, and while a region is open; GSHMEMX_ERROR_NOT_INITIALIZED.
GSHMEM_EXPORT int gshmemx_region_start(gshmemx_region_handle_t* handle,
                                       const gshmemx_region_attrs_t* attrs);
/// Local. Closes it, and completes nothing. Returns a status: GSHMEMX_ERROR_INVALID_VALUE if
/// `region` is not the handle of the open region; GSHMEMX_ERROR_NOT_INITIALIZED.
GSHMEM_EXPORT int gshmemx_region_stop(gshmemx_region_handle_t region);

// --- Streams -------------------------------------------------------------------------------------
/// This is cudaStream_t and CUstream. stream_functions.h has the functions that take one;
/// stream_functions.def documents what they promise.
struct CUstream_st;
typedef struct CUstream_st* gshmemx_stream_t;
#include <gshmem/stream_functions.h>

// --- Modules that the program loads --------------------------------------------------------------
// For code that includes gshmem.h, or is linked with the device library, and is loaded with
// cuModuleLoad* or cuLibraryLoad*.
struct CUmod_st;
struct CUlib_st;

/// Fills the device state of a module of cuModuleLoad*, for the calling thread's PE. Returns a
/// status: GSHMEMX_ERROR_INVALID_VALUE for a module without such a state,
/// GSHMEMX_ERROR_NOT_SUPPORTED for one of another version's headers or device library, and in CPU
/// mode, GSHMEMX_ERROR_CUDA.
GSHMEM_EXPORT int gshmemx_cumodule_init(struct CUmod_st* module);
/// Takes the state from the module. Calls of its kernels trap from now on, with a message if they
/// were compiled with GSHMEM_DEVICE_CHECKS=1. Errors: those of gshmemx_cumodule_init.
GSHMEM_EXPORT int gshmemx_cumodule_finalize(struct CUmod_st* module);
/// Does what gshmemx_cumodule_init does, for a library of cuLibraryLoad*, on the GPU of the PE.
GSHMEM_EXPORT int gshmemx_culibrary_init(struct CUlib_st* library);
/// Does what gshmemx_cumodule_finalize does, for a library of cuLibraryLoad*.
GSHMEM_EXPORT int gshmemx_culibrary_finalize(struct CUlib_st* library);

// --- Faults --------------------------------------------------------------------------------------
typedef struct gshmemx_fault {
  int code;                                         ///< gshmemx_status; GSHMEMX_SUCCESS = no fault
  int pe;                                           ///< PE concerned, -1 = none
  unsigned int queue, wqe_index, opcode, syndrome;  ///< network path only, else 0
  char message[512];                                ///< one line, complete sentence
} gshmemx_fault_t;

/// Returns the first fault of the calling thread's PE since init, or why init failed, and its code;
/// `info` may be null. Threads: any, also while kernels run.
GSHMEM_EXPORT int gshmemx_last_fault(gshmemx_fault_t* info);
/// Returns the text of a gshmemx_status; "unknown status" for any other number.
GSHMEM_EXPORT const char* gshmemx_status_string(int status);
/// Returns the version of this library. (gshmem_info_get_version returns that of the
/// specification.) Null is allowed for values that are not needed.
GSHMEM_EXPORT void gshmemx_vendor_get_version_info(int* major, int* minor, int* patch);

#ifdef __cplusplus
}
#endif

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#include "collective_launch.h"
#endif

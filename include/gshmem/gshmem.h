// gshmem: the OpenSHMEM part of the C API (names, arguments and meaning of OpenSHMEM 1.5 and
// NVSHMEM with the prefix gshmem_), with the extensions of gshmemx.h. C11, C++17 and CUDA.
//
// C and C++ units see prototypes of functions in libgshmem. Units compiled by nvcc see the same
// functions as __host__ __device__ inline functions; they work without and with -rdc.
//
// Terms. A PE owns one GPU (or, in CPU mode, one process or thread) and a symmetric heap. `dest` of
// put, `source` of get and `sig_addr` are symmetric objects: memory of gshmem_malloc, the same on
// all PEs. The other buffer of a transfer is any memory the caller can read or write. nelems counts
// elements, pe is 0 .. n_pes-1. Functions without suffix are called by one thread; gshmemx_*_warp
// and gshmemx_*_block by all threads of a warp or block with the same arguments. functions.h has
// every function that moves data or synchronizes; functions.def documents what each family
// promises.
//
// Order. put returns when `source` may be reused, put_nbi may return earlier; both are complete at
// the target after gshmem_quiet of the calling thread. get returns with the data, get_nbi has it
// after gshmem_quiet. gshmem_fence orders puts, atomics and signals to each PE. A signal is never
// visible before its payload. After wait_until, test or signal_wait_until has returned true,
// operations that the writer ordered before the value are visible to the caller.
//
// Errors. Bad arguments and faults are recorded for gshmemx_last_fault and end the process unless
// GSHMEM_FAULT=report; functions that return a status return it. Device code checks arguments in
// CPU mode and when compiled with GSHMEM_DEVICE_CHECKS=1.
#if !defined(GSHMEM_GSHMEM_H)
#define GSHMEM_GSHMEM_H

#include "constants.h"
#include "status.h"
#include "types.h"
#include "uniqueid.h"

// Units of nvcc have them as inline functions, and so have those with -DGSHMEM_CHECK_ORDER.
#if defined(__CUDACC__) || (defined(__cplusplus) && defined(GSHMEM_CHECK_ORDER))
#define GSHMEM_INLINE_FUNCTIONS
#endif

#ifdef __cplusplus
extern "C" {
#endif

// --- Setup: OpenSHMEM 1.5, sections 9.1 and 9.2. Host only ---------------------------------------
/// Collective. Joins the job (GSHMEM_BOOTSTRAP), selects this PE's GPU, and makes the symmetric
/// heap. On failure every PE fails with the rank and reason. With GSHMEM_FAULT=abort the process
/// then ends with status 1; otherwise gshmemx_init_status reports it. On a thread that has a PE,
/// init is only counted: it needs as many calls of gshmem_finalize. An init with another rank,
/// size, GPU or heap fails.
///
/// A child that a PE forks without exec is not part of the job and holds none of its connections;
/// it may read and write the heap's memory. In the child gshmem_finalize does nothing,
/// gshmem_global_exit ends the child alone, and calls that return a status or memory fail. Any
/// other call ends the child with a message that names the PE. gshmem_init makes the child a PE of
/// another job, but not by MPI or the launcher of its parent, nor on a GPU when its parent has one.
GSHMEM_EXPORT void gshmem_init(void);
/// Does what gshmem_init does; sets `*provided` to GSHMEM_THREAD_MULTIPLE. Returns a status.
GSHMEM_EXPORT int gshmem_init_thread(int requested, int* provided);
/// Sets `*provided` to GSHMEM_THREAD_MULTIPLE: any thread may call at any time. Null is allowed.
GSHMEM_EXPORT void gshmem_query_thread(int* provided);
/// Sets `*initialized` to 1 when the calling thread's PE is initialized, otherwise 0. It may be
/// called at any time. OpenSHMEM 1.6. Null is allowed.
GSHMEM_EXPORT void gshmem_query_initialized(int* initialized);
/// Section 9.12. The call does nothing: there is no profile that `level` could control. Nsight
/// Systems shows the kernels and copies of the library.
GSHMEM_EXPORT void gshmem_pcontrol(int level, ...);
/// Ends one init of the calling thread's PE. The last call is collective: it completes everything,
/// frees the heap and leaves the job. A process that exits need not call it. It waits for every PE
/// that has not ended, even for one that is suspended. It does not wait for PEs that died, that a
/// fault stopped, or whose host does not answer (GSHMEM_HEARTBEAT). gshmem_init may follow.
GSHMEM_EXPORT void gshmem_finalize(void);
/// Ends the job on all PEs with `status`; does not return.
GSHMEM_EXPORT void gshmem_global_exit(int status);
/// Return the version of the OpenSHMEM specification, and the name of the library
/// (GSHMEM_MAX_NAME_LEN bytes). Null is allowed for values that are not needed.
GSHMEM_EXPORT void gshmem_info_get_version(int* major, int* minor);
GSHMEM_EXPORT void gshmem_info_get_name(char* name);

// --- Symmetric memory: section 9.3. Host only ----------------------------------------------------
// Collective: every PE makes the calls, in the same order and with equal arguments. A difference is
// a fault (GSHMEMX_ERROR_SYMMETRY) on all PEs, which names the PEs and both values.
/// Allocates `size` bytes, aligned to 128, at the same offset of every heap; returns after all PEs
/// have allocated. Contents are undefined. The heaps of all PEs grow if there is no room, up to
/// GSHMEM_SYMMETRIC_LIMIT. Returns null for size 0, when any PE has not enough memory (the log says
/// which, and how much) and after a fault.
GSHMEM_EXPORT void* gshmem_malloc(size_t size);
/// Allocates `count * size` zeroed bytes; also returns null when the product overflows.
GSHMEM_EXPORT void* gshmem_calloc(size_t count, size_t size);
/// Does what gshmem_malloc does, with an alignment in bytes, which must be a power of two (fault
/// otherwise). Alignments above 1 GiB or above the size of the heap return null, as out of memory.
/// gshmem_realloc keeps only malloc's alignment.
GSHMEM_EXPORT void* gshmem_align(size_t alignment, size_t size);
/// Does what gshmem_malloc does; `hints` are or-ed gshmem_malloc_hints, which have no effect.
GSHMEM_EXPORT void* gshmem_malloc_with_hints(size_t size, long hints);
/// Does what C realloc does, for symmetric memory; contents move with it. Returns null when any PE
/// has not enough memory: `ptr` is then unchanged.
GSHMEM_EXPORT void* gshmem_realloc(void* ptr, size_t size);
/// Waits for all PEs, then frees. Null is allowed and not collective; an address that is not an
/// allocation is a fault (GSHMEMX_ERROR_INVALID_VALUE) on the PE that passed it.
GSHMEM_EXPORT void gshmem_free(void* ptr);

// --- Teams: section 9.4. Host only; functions.h has functions that take one ----------------------
// Collective over the members of the parent team, by one host thread of each. All members make
// calls on teams that have a member in common in the same order. At most GSHMEM_TEAMS teams of a PE
// exist at a time. The calls return a status, the same kind on all members, and GSHMEM_TEAM_INVALID
// in
// `*new_team` on error: GSHMEMX_ERROR_INVALID_VALUE for an invalid team or a value out of range,
// GSHMEMX_ERROR_SYMMETRY for arguments that differ, GSHMEMX_ERROR_OUT_OF_MEMORY when a member has
// all its teams in use.
/// Makes a team of the members start + i * stride of the parent, i from 0 to size - 1; on the
/// others `*new_team` is GSHMEM_TEAM_INVALID. A stride may be negative. `config` may be null if
/// `config_mask` is 0.
GSHMEM_EXPORT int gshmem_team_split_strided(gshmem_team_t parent_team, int start, int stride,
                                            int size, const gshmem_team_config_t* config,
                                            long config_mask, gshmem_team_t* new_team);
/// Member i of the parent is at (i % xrange, i / xrange); an xrange above the parent's size is
/// reduced to it. Members with the same second coordinate are an x-axis team, those with the same
/// first coordinate a y-axis team.
GSHMEM_EXPORT int gshmem_team_split_2d(gshmem_team_t parent_team, int xrange,
                                       const gshmem_team_config_t* xaxis_config, long xaxis_mask,
                                       gshmem_team_t* xaxis_team,
                                       const gshmem_team_config_t* yaxis_config, long yaxis_mask,
                                       gshmem_team_t* yaxis_team);
/// Returns the fields that `config_mask` names, as given when the team was made. Local; returns a
/// status: GSHMEMX_ERROR_INVALID_VALUE for an invalid team, a null config or other bits of the
/// mask.
GSHMEM_EXPORT int gshmem_team_get_config(gshmem_team_t team, long config_mask,
                                         gshmem_team_config_t* config);
/// Collective over the members; GSHMEM_TEAM_INVALID is allowed. A predefined or invalid team is a
/// fault (GSHMEMX_ERROR_INVALID_VALUE).
GSHMEM_EXPORT void gshmem_team_destroy(gshmem_team_t team);
/// Another name of gshmem_team_sync.
#define gshmem_sync gshmem_team_sync

// --- Contexts: section 9.5. Host only; functions.h has functions that take one -------------------
/// Local. Makes a context whose fence and quiet apply to it alone. `options` are or-ed
/// gshmem_ctx_options. With PRIVATE or SERIALIZED at most one thread at a time uses it (a thread,
/// or the first thread of a _warp or _block call), which needs no atomics; NOSTORE has no effect. A
/// context gets work queues of its own from those of GSHMEM_CONTEXTS and of destroyed handles,
/// while there are any. Afterwards contexts share the queues of the default context, whose quiet
/// then covers them. If every PE is mapped, a context costs nothing. Returns a status, and
/// GSHMEM_CTX_INVALID in `*ctx` on error: GSHMEMX_ERROR_OUT_OF_MEMORY beyond 1024 contexts and
/// handles, GSHMEMX_ERROR_INVALID_VALUE for unknown options, GSHMEMX_ERROR_NOT_INITIALIZED.
GSHMEM_EXPORT int gshmem_ctx_create(long options, gshmem_ctx_t* ctx);
/// Local. As gshmem_ctx_create, for `team`: gshmem_ctx_ functions name PEs by their numbers in it.
/// (C++'s on() and gshmemx_qp_ functions use the numbers of all PEs.) An invalid team returns
/// GSHMEMX_ERROR_INVALID_VALUE. Destroy the context before its team; a later use is a fault that
/// names it.
GSHMEM_EXPORT int gshmem_team_create_ctx(gshmem_team_t team, long options, gshmem_ctx_t* ctx);
/// Local. Calls quiet and destroys the context: no thread may be using it. GSHMEM_CTX_INVALID is
/// allowed. A handle that is not open is a fault (GSHMEMX_ERROR_INVALID_VALUE), and so is the
/// default context.
GSHMEM_EXPORT void gshmem_ctx_destroy(gshmem_ctx_t ctx);
/// Local, OpenSHMEM 1.6. Gives hints about the use of a context until gshmem_ctx_session_stop. They
/// have no effect: transfers of many threads share doorbells anyway. Faults:
/// GSHMEMX_ERROR_INVALID_VALUE for a handle that is not open, unknown options or fields, and fields
/// without a `config`. GSHMEM_CTX_INVALID is allowed.
GSHMEM_EXPORT void gshmem_ctx_session_start(gshmem_ctx_t ctx, long options,
                                            const gshmem_ctx_session_config_t* config,
                                            long config_mask);
GSHMEM_EXPORT void gshmem_ctx_session_stop(gshmem_ctx_t ctx);
/// Stores the team of the context in `*team`, and returns 0. The team is GSHMEM_TEAM_WORLD, except
/// for contexts of gshmem_team_create_ctx. A handle that is not open gives GSHMEM_TEAM_INVALID and
/// -1; a null team gives -1.
GSHMEM_EXPORT int gshmem_ctx_get_team(gshmem_ctx_t ctx, gshmem_team_t* team);

#ifdef __cplusplus
}
#endif

#include <gshmem/functions.h>
#if defined(GSHMEM_INLINE_FUNCTIONS)
#include <gshmem/device/api/api_context.h>
#include <gshmem/device/core/registrar.h>
#endif

#include "gshmemx.h"

#if !defined(__cplusplus)
#include "generic.h"
#endif
#define GSHMEM_IS_DECLARED  // headers above include this one, too
#endif

// nvshmem.h defines GSHMEM_WITHOUT_DEVICE_FUNCTIONS, since a unit that has NVSHMEM's names compiles
// longer with both. Such a unit has these functions by including this header again.
#if defined(GSHMEM_INLINE_FUNCTIONS) && defined(GSHMEM_IS_DECLARED) && \
    !defined(GSHMEM_WITHOUT_DEVICE_FUNCTIONS)
#include "device_functions.h"
#endif

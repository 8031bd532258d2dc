// Types of the API's functions, one or more of each family, written from OpenSHMEM 1.5 (section in
// the comments) and compared with the declarations under both prefixes. To compile it is the test,
// with the C++ compiler and with nvcc.
#include <gshmem/compat/nvshmem.h>
#include <gshmem/gshmem.h>

#include "tests/api/is_a.h"

#include <climits>
#include <type_traits>

#define OURS(NAME, ...) static_assert(is_a<__VA_ARGS__>(&gshmem##NAME), "gshmem" #NAME)
#define SAME(NAME, ...)    \
  OURS(NAME, __VA_ARGS__); \
  static_assert(is_a<__VA_ARGS__>(&nvshmem##NAME), "nvshmem" #NAME)

// 9.1 Setup, exit, query
SAME(_init, void (*)());
SAME(_init_thread, int (*)(int, int*));
SAME(_query_thread, void (*)(int*));
SAME(_finalize, void (*)());
SAME(_global_exit, void (*)(int));
SAME(_my_pe, int (*)());
SAME(_n_pes, int (*)());
SAME(_info_get_version, void (*)(int*, int*));
SAME(_info_get_name, void (*)(char*));
SAME(x_init_attr, int (*)(unsigned, gshmemx_init_attr_t*));
SAME(x_init_status, int (*)());
SAME(x_get_uniqueid, int (*)(gshmemx_uniqueid_t*));
SAME(x_set_attr_uniqueid_args, int (*)(int, int, const gshmemx_uniqueid_t*, gshmemx_init_attr_t*));
SAME(x_set_attr_mpi_comm_args, int (*)(void*, gshmemx_init_attr_t*));
SAME(x_cumodule_init, int (*)(CUmod_st*));
SAME(x_culibrary_init, int (*)(CUlib_st*));
static_assert(std::is_same_v<decltype(&nvshmemx_hostlib_init_attr),
                             int (*)(unsigned, nvshmemx_init_attr_t*)>);
static_assert(std::is_same_v<decltype(&nvshmemx_hostlib_finalize), void (*)()>);
SAME(x_vendor_get_version_info, void (*)(int*, int*, int*));
SAME(x_status_string, const char* (*)(int));

SAME(x_signal_counted_reset, void (*)(std::uint64_t*));
SAME(x_region_start, int (*)(std::uint64_t*, const gshmemx_region_attrs_t*));
SAME(x_region_stop, int (*)(std::uint64_t));
SAME(x_region_start_block, int (*)(std::uint64_t*, const gshmemx_region_attrs_t*));
SAME(x_region_stop_block, int (*)(std::uint64_t));
SAME(x_region_is_active, int (*)(std::uint32_t, int*));
SAME(x_ask_smem, int (*)(int));
SAME(x_give_smem, void (*)(void*, size_t));
SAME(x_release_smem, void (*)());

// 9.3 Memory, 9.4 teams
SAME(_malloc, void* (*)(size_t));
SAME(_calloc, void* (*)(size_t, size_t));
SAME(_align, void* (*)(size_t, size_t));
SAME(_free, void (*)(void*));
SAME(_ptr, void* (*)(const void*, int));
OURS(_realloc, void* (*)(void*, size_t));
SAME(_team_my_pe, int (*)(gshmem_team_t));
SAME(_team_n_pes, int (*)(gshmem_team_t));
SAME(_team_translate_pe, int (*)(gshmem_team_t, int, gshmem_team_t));
SAME(_team_split_strided,
     int (*)(gshmem_team_t, int, int, int, const gshmem_team_config_t*, long, gshmem_team_t*));
SAME(_team_split_2d, int (*)(gshmem_team_t, int, const gshmem_team_config_t*, long, gshmem_team_t*,
                             const gshmem_team_config_t*, long, gshmem_team_t*));
SAME(_team_destroy, void (*)(gshmem_team_t));
SAME(x_team_get_uniqueid, int (*)(std::uint64_t*));
SAME(x_team_init, int (*)(gshmem_team_t*, gshmem_team_config_t*, long, int, int));
SAME(_team_sync, int (*)(gshmem_team_t));
SAME(x_team_sync_warp, int (*)(gshmem_team_t));
SAME(_barrier, int (*)(gshmem_team_t));
SAME(x_barrier_block, int (*)(gshmem_team_t));
SAME(x_barrier_warpgroup, int (*)(gshmem_team_t));
OURS(_team_get_config, int (*)(gshmem_team_t, long, gshmem_team_config_t*));
static_assert(std::is_same_v<decltype(&nvshmem_team_get_config),
                             void (*)(nvshmem_team_t, nvshmem_team_config_t*)>);
static_assert(std::is_same_v<nvshmem_team_t, int32_t>);

// 9.5 RMA: typed, sized, bytes
SAME(_int_p, void (*)(int*, int, int));
SAME(_uchar_g, unsigned char (*)(const unsigned char*, int));
SAME(_double_put, void (*)(double*, const double*, size_t, int));
SAME(_longlong_get, void (*)(long long*, const long long*, size_t, int));
SAME(_half_put, void (*)(gshmem_half_t*, const gshmem_half_t*, size_t, int));
SAME(_ptrdiff_put_nbi, void (*)(ptrdiff_t*, const ptrdiff_t*, size_t, int));
SAME(_float_iput, void (*)(float*, const float*, ptrdiff_t, ptrdiff_t, size_t, int));
SAME(_size_iget, void (*)(size_t*, const size_t*, ptrdiff_t, ptrdiff_t, size_t, int));
SAME(_put128, void (*)(void*, const void*, size_t, int));
SAME(_get8_nbi, void (*)(void*, const void*, size_t, int));
SAME(_iput16, void (*)(void*, const void*, ptrdiff_t, ptrdiff_t, size_t, int));
SAME(_putmem, void (*)(void*, const void*, size_t, int));
SAME(_getmem_nbi, void (*)(void*, const void*, size_t, int));
SAME(x_int32_put_warp, void (*)(int32_t*, const int32_t*, size_t, int));
SAME(x_putmem_nbi_block, void (*)(void*, const void*, size_t, int));
SAME(x_iget64_block, void (*)(void*, const void*, ptrdiff_t, ptrdiff_t, size_t, int));

// 9.6 Atomics
SAME(_double_atomic_fetch, double (*)(const double*, int));
SAME(_float_atomic_set, void (*)(float*, float, int));
SAME(x_float_atomic_add, void (*)(float*, float, int));
SAME(x_double_atomic_fetch_add, double (*)(double*, double, int));
SAME(_half_atomic_swap, gshmem_half_t (*)(gshmem_half_t*, gshmem_half_t, int));
SAME(_long_atomic_swap, long (*)(long*, long, int));
SAME(_ulonglong_atomic_compare_swap,
     unsigned long long (*)(unsigned long long*, unsigned long long, unsigned long long, int));
SAME(_ulong_atomic_fetch_add, unsigned long (*)(unsigned long*, unsigned long, int));
SAME(_int64_atomic_add, void (*)(int64_t*, int64_t, int));
SAME(_size_atomic_fetch_inc, size_t (*)(size_t*, int));
SAME(_ptrdiff_atomic_inc, void (*)(ptrdiff_t*, int));
SAME(_uint_atomic_fetch_xor, unsigned (*)(unsigned*, unsigned, int));
SAME(_int32_atomic_and, void (*)(int32_t*, int32_t, int));

// 9.8 Signaling
SAME(_short_put_signal, void (*)(short*, const short*, size_t, uint64_t*, uint64_t, int, int));
SAME(_put16_signal_nbi, void (*)(void*, const void*, size_t, uint64_t*, uint64_t, int, int));
SAME(x_put16_signal_nbi_warp, void (*)(void*, const void*, size_t, uint64_t*, uint64_t, int, int));
SAME(x_putmem_signal_block, void (*)(void*, const void*, size_t, uint64_t*, uint64_t, int, int));
SAME(x_signal_op, void (*)(uint64_t*, uint64_t, int, int));
SAME(_signal_fetch, uint64_t (*)(const uint64_t*));
SAME(_signal_wait_until, uint64_t (*)(uint64_t*, int, uint64_t));

// Calls on streams have NVSHMEM's names and its type of streams.
static_assert(std::is_same_v<gshmemx_stream_t, struct CUstream_st*>);
SAME(x_putmem_on_stream, void (*)(void*, const void*, size_t, int, CUstream_st*));
SAME(x_getmem_nbi_on_stream, void (*)(void*, const void*, size_t, int, CUstream_st*));
SAME(x_float_put_on_stream, void (*)(float*, const float*, size_t, int, CUstream_st*));
SAME(x_int_p_on_stream, void (*)(int*, int, int, CUstream_st*));
SAME(x_double_g_on_stream, double (*)(const double*, int, CUstream_st*));
SAME(x_iput32_on_stream,
     void (*)(void*, const void*, ptrdiff_t, ptrdiff_t, size_t, int, CUstream_st*));
SAME(x_putmem_signal_on_stream,
     void (*)(void*, const void*, size_t, uint64_t*, uint64_t, int, int, CUstream_st*));
SAME(x_put128_signal_nbi_on_stream,
     void (*)(void*, const void*, size_t, uint64_t*, uint64_t, int, int, CUstream_st*));
SAME(x_signal_op_on_stream, void (*)(uint64_t*, uint64_t, int, int, CUstream_st*));
SAME(x_signal_wait_until_on_stream, void (*)(uint64_t*, int, uint64_t, CUstream_st*));
SAME(x_uint64_wait_until_on_stream, void (*)(uint64_t*, int, uint64_t, CUstream_st*));
SAME(x_int_wait_until_all_on_stream, void (*)(int*, size_t, const int*, int, int, CUstream_st*));
SAME(x_long_wait_until_all_vector_on_stream,
     void (*)(long*, size_t, const int*, int, long*, CUstream_st*));
SAME(x_quiet_on_stream, void (*)(CUstream_st*));
SAME(x_barrier_all_on_stream, void (*)(CUstream_st*));
SAME(x_sync_all_on_stream, void (*)(CUstream_st*));
SAME(x_barrier_on_stream, int (*)(gshmem_team_t, CUstream_st*));
SAME(x_team_sync_on_stream, int (*)(gshmem_team_t, CUstream_st*));

// 9.5 Contexts, also as the first argument of calls that move data
OURS(_ctx_create, int (*)(long, gshmem_ctx_t*));
OURS(_ctx_destroy, void (*)(gshmem_ctx_t));
OURS(_team_create_ctx, int (*)(gshmem_team_t, long, gshmem_ctx_t*));
OURS(_ctx_get_team, int (*)(gshmem_ctx_t, gshmem_team_t*));
SAME(x_buffer_register, int (*)(void*, size_t));
SAME(x_buffer_unregister, int (*)(void*));
SAME(x_buffer_unregister_all, void (*)());
SAME(x_buffer_register_symmetric, void* (*)(void*, size_t, int));
SAME(x_buffer_register_symmetric_at_preferred_address, void* (*)(void*, size_t, void*, int));
SAME(x_buffer_unregister_symmetric, int (*)(void*, size_t));
OURS(_ctx_session_start, void (*)(gshmem_ctx_t, long, const gshmem_ctx_session_config_t*, long));
OURS(_ctx_session_stop, void (*)(gshmem_ctx_t));
OURS(_query_initialized, void (*)(int*));
OURS(_pcontrol, void (*)(int, ...));
OURS(_team_ptr, void* (*)(gshmem_team_t, const void*, int));
OURS(_signal_add, void (*)(uint64_t*, uint64_t, int));
OURS(_ctx_signal_set, void (*)(gshmem_ctx_t, uint64_t*, uint64_t, int));
OURS(_pe_quiet, void (*)(const int*, size_t));
OURS(_ctx_pe_quiet, void (*)(gshmem_ctx_t, const int*, size_t));
OURS(_set_lock, void (*)(long*));
OURS(_test_lock, int (*)(long*));
OURS(_clear_lock, void (*)(long*));
OURS(_ctx_int_put, void (*)(gshmem_ctx_t, int*, const int*, size_t, int));
OURS(_ctx_double_g, double (*)(gshmem_ctx_t, const double*, int));
OURS(_uint_atomic_fetch_nbi, void (*)(unsigned*, const unsigned*, int));
OURS(_double_atomic_swap_nbi, void (*)(double*, double*, double, int));
OURS(_int_atomic_compare_swap_nbi, void (*)(int*, int*, int, int, int));
OURS(_size_atomic_fetch_inc_nbi, void (*)(size_t*, size_t*, int));
OURS(_long_atomic_fetch_add_nbi, void (*)(long*, long*, long, int));
OURS(_ctx_uint64_atomic_fetch_xor_nbi, void (*)(gshmem_ctx_t, uint64_t*, uint64_t*, uint64_t, int));
OURS(x_pe_quiet, void (*)(int));
OURS(x_pe_quiet_block, void (*)(int));
OURS(_pe_accessible, int (*)(int));
OURS(_addr_accessible, int (*)(const void*, int));
OURS(_malloc_with_hints, void* (*)(size_t, long));
OURS(_ctx_iget64, void (*)(gshmem_ctx_t, void*, const void*, ptrdiff_t, ptrdiff_t, size_t, int));
OURS(_ctx_putmem_nbi, void (*)(gshmem_ctx_t, void*, const void*, size_t, int));
OURS(_ctx_uint_atomic_fetch_xor, unsigned (*)(gshmem_ctx_t, unsigned*, unsigned, int));
OURS(_ctx_short_put_signal,
     void (*)(gshmem_ctx_t, short*, const short*, size_t, uint64_t*, uint64_t, int, int));
OURS(x_ctx_getmem_nbi_block, void (*)(gshmem_ctx_t, void*, const void*, size_t, int));
OURS(x_ctx_signal_op, void (*)(gshmem_ctx_t, uint64_t*, uint64_t, int, int));
OURS(_ctx_fence, void (*)(gshmem_ctx_t));
OURS(_ctx_quiet, void (*)(gshmem_ctx_t));

// NVSHMEM's queue handles: the last argument
SAME(x_qp_create, int (*)(int, int**));
OURS(x_qp_destroy, int (*)(int, const int*));
SAME(x_qp_float_put_nbi_block, void (*)(float*, const float*, size_t, int, int));
SAME(x_qp_long_get, void (*)(long*, const long*, size_t, int, int));
SAME(x_qp_int8_p, void (*)(int8_t*, int8_t, int, int));
SAME(x_qp_size_g, size_t (*)(const size_t*, int, int));
SAME(x_qp_uint_put_signal_nbi_warp,
     void (*)(unsigned*, const unsigned*, size_t, uint64_t*, uint64_t, int, int, int));
SAME(x_qp_signal_op, void (*)(uint64_t*, uint64_t, int, int, int));
SAME(x_qp_fence_warp, void (*)(int, int*, int));
SAME(x_qp_quiet, void (*)(int, int*, int));

// 9.9, 9.11 Barriers and ordering
SAME(_barrier_all, void (*)());
SAME(x_sync_all_warp, void (*)());
SAME(_fence, void (*)());
SAME(_quiet, void (*)());

// 9.9 Collectives
SAME(_int_alltoall, int (*)(int, int*, const int*, size_t));
SAME(_alltoallmem, int (*)(int, void*, const void*, size_t));
SAME(x_double_fcollect_block, int (*)(int, double*, const double*, size_t));
SAME(_broadcastmem, int (*)(int, void*, const void*, size_t, int));
SAME(x_short_broadcast_warp, int (*)(int, short*, const short*, size_t, int));
SAME(_float_sum_reduce, int (*)(int, float*, const float*, size_t));
SAME(x_uint64_xor_reduce_block, int (*)(int, uint64_t*, const uint64_t*, size_t));
SAME(_float_sum_reducescatter, int (*)(int, float*, const float*, size_t));
SAME(x_uchar_or_reducescatter_warp, int (*)(int, unsigned char*, const unsigned char*, size_t));
SAME(x_long_max_reducescatter_on_stream, int (*)(int, long*, const long*, size_t, CUstream_st*));
SAME(x_double2_maxloc_reduce_block,
     int (*)(int, gshmem_double2_t*, const gshmem_double2_t*, size_t));
OURS(_short_collect, int (*)(int, short*, const short*, size_t));
OURS(_collectmem, int (*)(int, void*, const void*, size_t));
OURS(_float_alltoalls, int (*)(int, float*, const float*, ptrdiff_t, ptrdiff_t, size_t));
OURS(_alltoallsmem, int (*)(int, void*, const void*, ptrdiff_t, ptrdiff_t, size_t));
OURS(_size_sum_inscan, int (*)(int, size_t*, const size_t*, size_t));
OURS(_complexd_sum_exscan, int (*)(int, gshmem_complexd_dest_t, gshmem_complexd_source_t, size_t));
OURS(_complexf_prod_reduce, int (*)(int, gshmem_complexf_dest_t, gshmem_complexf_source_t, size_t));
static_assert(std::is_trivially_copyable_v<gshmem_complexd_dest_t> &&
              sizeof(gshmem_complexd_dest_t) == sizeof(void*));
SAME(x_half_max_reduce_warp, int (*)(int, gshmem_half_t*, const gshmem_half_t*, size_t));

// 9.10 Point-to-point synchronization
SAME(_ushort_wait_until, void (*)(unsigned short*, int, unsigned short));
SAME(_int_wait_until_all, void (*)(int*, size_t, const int*, int, int));
SAME(_int_wait_until_any, size_t (*)(int*, size_t, const int*, int, int));
SAME(_uint64_wait_until_some, size_t (*)(uint64_t*, size_t, size_t*, const int*, int, uint64_t));
SAME(_int_wait_until_all_vector, void (*)(int*, size_t, const int*, int, const int*));
SAME(_long_wait_until_any_vector, size_t (*)(long*, size_t, const int*, int, const long*));
SAME(_long_test, int (*)(long*, int, long));
SAME(_size_test_all, int (*)(size_t*, size_t, const int*, int, size_t));
SAME(_int_test_any, size_t (*)(int*, size_t, const int*, int, int));
SAME(_int_test_some_vector, size_t (*)(int*, size_t, size_t*, const int*, int, const int*));

#if defined(__CUDACC__)
SAME(x_collective_launch, int (*)(const void*, dim3, dim3, void**, size_t, cudaStream_t));
SAME(x_collective_launch_query_gridsize, int (*)(const void*, dim3, void**, size_t, int*));
static_assert(std::is_same_v<gshmem_double2_t, double2>);
static_assert(std::is_same_v<gshmem_half_t, __half>);
static_assert(std::is_same_v<gshmem_bfloat16_t, __nv_bfloat16>);
#endif

// Values that programs store, print or share with other libraries.
static_assert(NVSHMEM_CMP_EQ == 0 && NVSHMEM_CMP_NE == 1 && NVSHMEM_CMP_GT == 2 &&
              NVSHMEM_CMP_LE == 3 && NVSHMEM_CMP_LT == 4 && NVSHMEM_CMP_GE == 5);
static_assert(NVSHMEM_SIGNAL_SET == 9 && NVSHMEM_SIGNAL_ADD == 10);
static_assert(NVSHMEM_THREAD_SINGLE == 0 && NVSHMEM_THREAD_FUNNELED == 1 &&
              NVSHMEM_THREAD_SERIALIZED == 2 && NVSHMEM_THREAD_MULTIPLE == 3);
static_assert(NVSHMEM_TEAM_INVALID == -1 && NVSHMEM_TEAM_WORLD == 0 && NVSHMEM_TEAM_SHARED == 1 &&
              NVSHMEMX_TEAM_NODE == 2 && NVSHMEMX_TEAM_SAME_MYPE_NODE == 3);
static_assert(NVSHMEMX_INIT_THREAD_PES == 1 && NVSHMEMX_INIT_WITH_MPI_COMM == 2 &&
              NVSHMEMX_INIT_WITH_SHMEM == 4 && NVSHMEMX_INIT_WITH_UNIQUEID == 8);
static_assert(NVSHMEMX_SUCCESS == 0 && NVSHMEMX_ERROR_INVALID_VALUE == 1 &&
              NVSHMEMX_ERROR_OUT_OF_MEMORY == 2 && NVSHMEMX_ERROR_NOT_SUPPORTED == 3 &&
              NVSHMEMX_ERROR_SYMMETRY == 4 && NVSHMEMX_ERROR_GPU_NOT_SELECTED == 5 &&
              NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED == 6 && NVSHMEMX_ERROR_INTERNAL == 7);
static_assert(NVSHMEMX_QP_HOST == 0 && NVSHMEMX_QP_DEFAULT == 1 && NVSHMEMX_QP_ANY == INT_MAX &&
              NVSHMEMX_QP_ALL == INT_MAX && NVSHMEMX_PE_ANY == 1 << 15 &&
              NVSHMEMX_PE_ALL == 1 << 15);
static_assert(NVSHMEM_STATUS_NOT_INITIALIZED == 0 && NVSHMEM_STATUS_IS_INITIALIZED == 2);
static_assert(NVSHMEM_MAX_NAME_LEN == 256);
static_assert(NVSHMEM_MAJOR_VERSION == 1 && NVSHMEM_MINOR_VERSION == 3);
static_assert(GSHMEM_MAJOR_VERSION == 1 && GSHMEM_MINOR_VERSION == 5);
static_assert(sizeof(nvshmemx_init_attr_t) == 144 && sizeof(nvshmemx_init_args_t) == 128 &&
              sizeof(nvshmemx_uniqueid_t) == 128 && sizeof(nvshmemx_uniqueid_args_t) == 24);

// Fields that programs set by hand.
[[maybe_unused]] static void fields() {
  nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  attr.mpi_comm = &attr;
  attr.args.uid_args.id = &id;
  attr.args.uid_args.myrank = 0;
  attr.args.uid_args.nranks = 1;
}

// Kernels that make one call each, by family: check_registers.py checks that a block of 1024
// threads can run each, as a whole program and as relocatable code. PART leaves one of three parts.
#include <gshmem/blocks.h>
#include <gshmem/gshmem.h>
#include <gshmem/tile.hpp>

#include <cstddef>
#include <cstdint>

/// Arguments and results are in memory, as in a real program.
struct Work {
  gshmem_team_t team;
  gshmem_ctx_t ctx;
  gshmemx_qp_handle_t* qps;
  char* to;
  const char* from;
  double* reals;
  std::uint64_t* words;
  std::size_t* indices;
  int* states;
  long* lock;
  std::size_t n;
  std::uint64_t value;
  int pe;
};
template <class T>
__device__ T* to(const Work* work) {
  return reinterpret_cast<T*>(work->to);
}
template <class T>
__device__ const T* from(const Work* work) {
  return reinterpret_cast<const T*>(work->from);
}

#define CALL(NAME, ...) \
  extern "C" __global__ void CALL_##NAME(const Work* w) { __VA_ARGS__; }
#define STATUS(NAME, ...) CALL(NAME, *w->states = __VA_ARGS__)
#if defined(PART)
#define HAS_PART(NUMBER) (PART == NUMBER)
#else
#define HAS_PART(NUMBER) 1
#endif

// Collectives, with types whose words have 1 to 16 bytes.
#define REDUCTION(FORM, NAME, T) STATUS(NAME, FORM##NAME(w->team, to<T>(w), from<T>(w), w->n))
#define COLLECTIVES(FORM, SUFFIX)                                                                \
  STATUS(alltoallmem##SUFFIX, FORM##alltoallmem##SUFFIX(w->team, w->to, w->from, w->n))          \
  STATUS(broadcastmem##SUFFIX, FORM##broadcastmem##SUFFIX(w->team, w->to, w->from, w->n, w->pe)) \
  STATUS(fcollectmem##SUFFIX, FORM##fcollectmem##SUFFIX(w->team, w->to, w->from, w->n))          \
  STATUS(collectmem##SUFFIX, FORM##collectmem##SUFFIX(w->team, w->to, w->from, w->n))            \
  STATUS(double_alltoalls##SUFFIX,                                                               \
         FORM##double_alltoalls##SUFFIX(w->team, to<double>(w), from<double>(w), 2, 3, w->n))    \
  REDUCTION(FORM, int8_max_reduce##SUFFIX, std::int8_t)                                          \
  REDUCTION(FORM, float_sum_reduce##SUFFIX, float)                                               \
  REDUCTION(FORM, double_prod_reduce##SUFFIX, double)                                            \
  REDUCTION(FORM, float_sum_reducescatter##SUFFIX, float)                                        \
  REDUCTION(FORM, double_sum_inscan##SUFFIX, double)                                             \
  REDUCTION(FORM, float_sum_exscan##SUFFIX, float)
#if HAS_PART(0)
COLLECTIVES(gshmem_, )
REDUCTION(gshmem_, half_sum_reduce, gshmem_half_t)
REDUCTION(gshmem_, complexd_prod_reduce, gshmem_complexd_t)
#endif
#if HAS_PART(1)
COLLECTIVES(gshmemx_, _warp)
COLLECTIVES(gshmemx_, _block)
REDUCTION(gshmemx_, double2_maxloc_reduce_block, gshmem_double2_t)
#endif

#if HAS_PART(2)
// Locks, blocks with gaps, atomics of all kinds, waits on several words.
CALL(set_lock, gshmem_set_lock(w->lock))
STATUS(test_lock, gshmem_test_lock(w->lock))
CALL(clear_lock, gshmem_clear_lock(w->lock))
CALL(ibput, gshmem_double_ibput(w->reals, from<double>(w), 2, 3, 4, w->n, w->pe))
CALL(ibget, gshmem_double_ibget(w->reals, from<double>(w), 2, 3, 4, w->n, w->pe))
CALL(putv, gshmemx_putv(from<gshmemx_piece_t>(w), w->n, w->pe))
CALL(getv_nbi_warp, gshmemx_getv_nbi_warp(from<gshmemx_piece_t>(w), w->n, w->pe))
CALL(getv_block, gshmemx_getv_block(from<gshmemx_piece_t>(w), w->n, w->pe))
CALL(putv_signal_block, gshmemx_putv_signal_block(from<gshmemx_piece_t>(w), w->n, w->words,
                                                  w->value, GSHMEM_SIGNAL_ADD, w->pe))
CALL(ctx_putv, gshmemx_ctx_putv(w->ctx, from<gshmemx_piece_t>(w), w->n, w->pe))
CALL(float_atomic_add, gshmemx_float_atomic_add(to<float>(w), 1.0f, w->pe))
CALL(double_fetch_add, *w->reals = gshmemx_double_atomic_fetch_add(to<double>(w), 1.0, w->pe))
CALL(half_fetch, *to<gshmem_half_t>(w) = gshmem_half_atomic_fetch(from<gshmem_half_t>(w), w->pe))
CALL(atomic_set, gshmem_uint64_atomic_set(w->words, w->value, w->pe))
CALL(atomic_swap, *w->words = gshmem_uint64_atomic_swap(w->words, w->value, w->pe))
CALL(fetch_and, *w->words = gshmem_uint64_atomic_fetch_and(w->words, w->value, w->pe))
CALL(fetch_add_nbi, gshmem_uint64_atomic_fetch_add_nbi(w->words, w->words, w->value, w->pe))
CALL(wait_until_some,
     *w->indices = gshmem_uint64_wait_until_some(w->words, w->n, w->indices, w->states,
                                                 GSHMEM_CMP_GE, w->value))
CALL(wait_until_all_vector,
     gshmem_uint64_wait_until_all_vector(w->words, w->n, w->states, GSHMEM_CMP_GE, w->words))

// Order and synchronization in other scopes, contexts, handles, teams.
STATUS(quiet_status, gshmemx_quiet_status())
CALL(flush_block, gshmemx_flush_block())
CALL(pe_quiet_block, gshmemx_pe_quiet_block(w->pe))
CALL(qp_quiet_block, gshmemx_qp_quiet_block(w->pe, w->qps, 1))
CALL(qp_fence, gshmemx_qp_fence(w->pe, w->qps, 1))
CALL(sync_all_block, gshmemx_sync_all_block())
STATUS(barrier_warpgroup, gshmemx_barrier_warpgroup(w->team))
CALL(ctx_getmem, gshmem_ctx_getmem(w->ctx, w->to, w->from, w->n, w->pe))
CALL(ctx_putmem_signal_block,
     gshmemx_ctx_putmem_signal_block(w->ctx, w->to, w->from, w->n, w->words, w->value,
                                     GSHMEM_SIGNAL_ADD, w->pe))
CALL(ctx_fetch_add,
     *w->words = gshmem_ctx_uint64_atomic_fetch_add(w->ctx, w->words, w->value, w->pe))
CALL(qp_put_nbi,
     gshmemx_qp_int8_put_nbi(to<std::int8_t>(w), from<std::int8_t>(w), w->n, w->pe, w->qps[0]))
STATUS(team_translate_pe, gshmem_team_translate_pe(w->team, w->pe, w->team))
CALL(ask_smem, gshmemx_ask_smem(1))

// Tiles with half as many rows as columns.
template <class T>
__device__ auto tile(const char* first, const Work* w) {
  const int rows = static_cast<int>(w->n);
  return gshmemx::Tensor(reinterpret_cast<T*>(const_cast<char*>(first)),
                         gshmemx::make_layout(gshmemx::make_shape(rows, 2 * rows),
                                              gshmemx::make_stride(gshmemx::ConstInt<1>{}, rows)));
}
template <class T>
using Tile = decltype(tile<T>(nullptr, nullptr));
using Place = gshmemx::shape<int, int>;
#define TILE(NAME, T, ALGORITHM, ...) \
  STATUS(tile_##NAME,                 \
         gshmemx::tile_##NAME<Tile<T>, Tile<T>, Place, gshmemx::ALGORITHM>(__VA_ARGS__))
#define TILE_MOVE(NAME, T) \
  TILE(NAME, T, PEER_PUSH_NBI, tile<T>(w->from, w), tile<T>(w->to, w), {0, 0}, {9, 9}, w->pe, 0)
#define TILE_OF_TEAM(NAME, T, ALGORITHM, ...)                                               \
  TILE(NAME, T, ALGORITHM, w->team, tile<T>(w->from, w), tile<T>(w->to, w), {0, 0}, {9, 9}, \
       __VA_ARGS__)
TILE_MOVE(put, float)
TILE_MOVE(put_block, gshmem_half_t)
TILE_MOVE(get_warpgroup, double)
TILE_OF_TEAM(broadcast_warp, float, NVLS_ONE_SHOT_PUSH_NBI, 0)
TILE_OF_TEAM(allgather_block, float, NVLS_ONE_SHOT_PUSH_NBI, 0)
TILE_OF_TEAM(sum_reduce, gshmem_half_t, NVLS_ONE_SHOT_PULL_NBI, 0)
TILE_OF_TEAM(sum_reduce_block, gshmem_half_t, NVLS_TWO_SHOT_PUSH_NBI, w->pe, 0)
TILE_OF_TEAM(max_reduce_warpgroup, gshmem_bfloat16_t, NVLS_ONE_SHOT_PULL_NBI, 0)
TILE_OF_TEAM(min_rooted_reduce_warp, float, NVLS_ONE_SHOT_PULL_NBI, w->pe, 0)
#endif

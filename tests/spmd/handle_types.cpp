// Every function on a context or queue handle that exists for each type, by its name in the C API,
// called by a host thread: each does what its name says, and takes the handle as the right
// argument.
#include "tests/spmd/handles.h"

#include <cstring>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

template <class T>
T element(std::uint64_t i) {
  T value;
  std::memset(&value, static_cast<int>(i + 3), sizeof(T));
  return value;
}

// Tests the C API of contexts for each type, on four elements that only this PE writes: it reads
// back what a context has put.
#define CTX_RMA(NAME, T)                                                                           \
  T* there = static_cast<T*>(memory);                                                              \
  T source[4], back[4];                                                                            \
  for (unsigned i = 0; i < 4; ++i) {                                                               \
    source[i] = element<T>(row + i);                                                               \
    back[i] = element<T>(0);                                                                       \
  }                                                                                                \
  gshmem_ctx_##NAME##_put(ctx, there, source, 2, to);                                              \
  gshmem_ctx_##NAME##_iput(ctx, there + 2, source + 2, 1, 1, 1, to);                               \
  gshmem_ctx_##NAME##_p(ctx, there + 3, source[3], to);                                            \
  gshmem_ctx_quiet(ctx);                                                                           \
  gshmem_ctx_##NAME##_get(ctx, back, there, 2, to);                                                \
  gshmem_ctx_##NAME##_iget(ctx, back + 2, there + 2, 1, 1, 1, to);                                 \
  back[3] = gshmem_ctx_##NAME##_g(ctx, there + 3, to);                                             \
  for (int i = 0; i < 4; ++i) SPMD_EQ(pe, raw(back[i]), raw(source[i]), row);                      \
  gshmem_ctx_##NAME##_put_nbi(ctx, there, source + 1, 3, to);                                      \
  gshmem_ctx_quiet(ctx);                                                                           \
  gshmem_ctx_##NAME##_get_nbi(ctx, back, there, 3, to);                                            \
  gshmem_ctx_quiet(ctx);                                                                           \
  for (int i = 0; i < 3; ++i) SPMD_EQ(pe, raw(back[i]), raw(source[i + 1]), row);                  \
  gshmem_ctx_##NAME##_put_signal(ctx, there, source, 1, signal, 2, GSHMEM_SIGNAL_ADD, to);         \
  gshmem_ctx_##NAME##_put_signal_nbi(ctx, there + 1, source, 1, signal, 3, GSHMEM_SIGNAL_ADD, to); \
  gshmem_ctx_quiet(ctx);
#define CTX_NONE(NAME, T) CTX_RMA(NAME, T)
#define CTX_ANY(NAME, T)                                                          \
  CTX_RMA(NAME, T)                                                                \
  gshmem_ctx_##NAME##_atomic_set(ctx, there, numeric<T>(5), to);                  \
  gshmem_ctx_quiet(ctx);                                                          \
  back[0] = gshmem_ctx_##NAME##_atomic_swap(ctx, there, numeric<T>(6), to);       \
  back[1] = gshmem_ctx_##NAME##_atomic_fetch(ctx, there, to);                     \
  gshmem_ctx_##NAME##_atomic_swap_nbi(ctx, back + 2, there, numeric<T>(7), to);   \
  gshmem_ctx_quiet(ctx);                                                          \
  gshmem_ctx_##NAME##_atomic_fetch_nbi(ctx, back + 3, there, to);                 \
  gshmem_ctx_quiet(ctx);                                                          \
  for (int i = 0; i < 4; ++i)                                                     \
    SPMD_EQ(pe, raw(back[i]), raw(numeric<T>(i == 0 ? 5 : i == 3 ? 7 : 6)), row); \
  gshmem_ctx_##NAME##_atomic_set(ctx, there, numeric<T>(6), to);                  \
  gshmem_ctx_quiet(ctx);
#define CTX_EXT(NAME, T)                                                          \
  CTX_ANY(NAME, T)                                                                \
  gshmemx_ctx_##NAME##_atomic_add(ctx, there, numeric<T>(0.5f), to);              \
  gshmem_ctx_quiet(ctx);                                                          \
  back[0] = gshmemx_ctx_##NAME##_atomic_fetch_add(ctx, there, numeric<T>(2), to); \
  back[1] = gshmem_ctx_##NAME##_atomic_fetch(ctx, there, to);                     \
  SPMD_EQ(pe, raw(back[0]), raw(numeric<T>(6.5f)), row);                          \
  SPMD_EQ(pe, raw(back[1]), raw(numeric<T>(8.5f)), row);
#define CTX_STD(NAME, T)                                                                \
  CTX_ANY(NAME, T)                                                                      \
  SPMD_EQ(pe, gshmem_ctx_##NAME##_atomic_fetch_add(ctx, there, 2, to), 6, row);         \
  gshmem_ctx_##NAME##_atomic_add(ctx, there, 1, to);                                    \
  gshmem_ctx_##NAME##_atomic_inc(ctx, there, to);                                       \
  gshmem_ctx_quiet(ctx);                                                                \
  SPMD_EQ(pe, gshmem_ctx_##NAME##_atomic_fetch_inc(ctx, there, to), 10, row);           \
  SPMD_EQ(pe, gshmem_ctx_##NAME##_atomic_compare_swap(ctx, there, 11, 3, to), 11, row); \
  gshmem_ctx_##NAME##_atomic_fetch_add_nbi(ctx, back, there, 5, to);                    \
  gshmem_ctx_quiet(ctx);                                                                \
  gshmem_ctx_##NAME##_atomic_fetch_inc_nbi(ctx, back + 1, there, to);                   \
  gshmem_ctx_quiet(ctx);                                                                \
  gshmem_ctx_##NAME##_atomic_compare_swap_nbi(ctx, back + 2, there, 9, 3, to);          \
  gshmem_ctx_quiet(ctx);                                                                \
  SPMD_EQ(pe, back[0], 3, row);                                                         \
  SPMD_EQ(pe, back[1], 8, row);                                                         \
  SPMD_EQ(pe, back[2], 9, row);
#define CTX_BIT(NAME, T)                                                          \
  CTX_STD(NAME, T)                                                                \
  SPMD_EQ(pe, gshmem_ctx_##NAME##_atomic_fetch_or(ctx, there, 4, to), 3, row);    \
  gshmem_ctx_##NAME##_atomic_or(ctx, there, 8, to);                               \
  gshmem_ctx_##NAME##_atomic_and(ctx, there, 14, to);                             \
  gshmem_ctx_quiet(ctx);                                                          \
  SPMD_EQ(pe, gshmem_ctx_##NAME##_atomic_fetch_and(ctx, there, 12, to), 14, row); \
  gshmem_ctx_##NAME##_atomic_xor(ctx, there, 1, to);                              \
  gshmem_ctx_quiet(ctx);                                                          \
  SPMD_EQ(pe, gshmem_ctx_##NAME##_atomic_fetch_xor(ctx, there, 13, to), 13, row); \
  gshmem_ctx_##NAME##_atomic_fetch_or_nbi(ctx, back, there, 6, to);               \
  gshmem_ctx_quiet(ctx);                                                          \
  gshmem_ctx_##NAME##_atomic_fetch_and_nbi(ctx, back + 1, there, 5, to);          \
  gshmem_ctx_quiet(ctx);                                                          \
  gshmem_ctx_##NAME##_atomic_fetch_xor_nbi(ctx, back + 2, there, 1, to);          \
  gshmem_ctx_quiet(ctx);                                                          \
  SPMD_EQ(pe, back[0], 0, row);                                                   \
  SPMD_EQ(pe, back[1], 6, row);                                                   \
  SPMD_EQ(pe, back[2], 4, row);

/// All calls use the memory of PE `to`, which no other PE writes.
void every_type_by_context(Pe& pe, gshmem_ctx_t ctx, void* memory, std::uint64_t* signal, int to) {
  std::uint64_t row = 0;
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) \
  {                                             \
    ++row;                                      \
    CTX_##AMO(NAME, T)                          \
  }
#include <gshmem/types.def>
  gshmem_ctx_quiet(ctx);
}

#define QP_TYPE(NAME, T)                                                                        \
  {                                                                                             \
    ++row;                                                                                      \
    for (std::size_t i = 0; i < sizeof(bytes); ++i) bytes[i] = pattern(row, i);                 \
    T source[2], back[2], *there = static_cast<T*>(memory);                                     \
    memcpy(source, bytes, sizeof(source));                                                      \
    gshmemx_qp_##NAME##_put(there, source, 1, to, qp);                                          \
    gshmemx_qp_##NAME##_p(there + 1, source[1], to, qp);                                        \
    gshmemx_qp_quiet(to, &qp, 1);                                                               \
    gshmemx_qp_##NAME##_get(back, there, 1, to, qp);                                            \
    back[1] = gshmemx_qp_##NAME##_g(there + 1, to, qp);                                         \
    memcpy(back_bytes, back, sizeof(back));                                                     \
    for (std::size_t i = 0; i < sizeof(back); ++i) SPMD_EQ(pe, back_bytes[i], bytes[i], row);   \
    gshmemx_qp_##NAME##_put_nbi(there, source + 1, 1, to, qp);                                  \
    gshmemx_qp_##NAME##_put_signal(there + 1, source, 1, signal, 2, GSHMEM_SIGNAL_ADD, to, qp); \
    gshmemx_qp_fence(to, &qp, 1);                                                               \
    gshmemx_qp_##NAME##_put_signal_nbi(there + 1, source, 1, signal, 3, GSHMEM_SIGNAL_ADD, to,  \
                                       qp);                                                     \
    gshmemx_qp_quiet(to, &qp, 1);                                                               \
    gshmemx_qp_##NAME##_get_nbi(back, there, 2, to, qp);                                        \
    gshmemx_qp_quiet(to, &qp, 1);                                                               \
    memcpy(back_bytes, back, sizeof(back));                                                     \
    for (std::size_t i = 0; i < sizeof(T); ++i) {                                               \
      SPMD_EQ(pe, back_bytes[i], bytes[sizeof(T) + i], row);                                    \
      SPMD_EQ(pe, back_bytes[sizeof(T) + i], bytes[i], row);                                    \
    }                                                                                           \
  }
void every_type_by_queue(Pe& pe, gshmemx_qp_handle_t qp, void* memory, std::uint64_t* signal,
                         int to) {
  std::uint64_t row = 0;
  std::uint8_t bytes[32], back_bytes[32];
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE) QP_TYPE(NAME, T)
#include <gshmem/types.def>
  gshmemx_qp_signal_op(signal, 7, GSHMEM_SIGNAL_ADD, to, qp);
  gshmemx_qp_quiet(to, &qp, 1);
}

/// The sum of the signals of 25 types.
constexpr std::uint64_t kSignals = 25 * (2 + 3);

}  // namespace

SPMD_TEST(context_functions_of_every_type_reach_the_next_pe) {
  OwnedContexts contexts(pe, 1, 0, OwnedContexts::Queues::kOwn);
  for (const gshmem_ctx_t ctx : {contexts.list().handle[0], int{GSHMEM_CTX_DEFAULT}}) {
    SymmetricArray<std::uint64_t> memory(8), signal(1);
    every_type_by_context(pe, ctx, memory.data(), signal.data(), pe.next());
    pe.barrier();
    SPMD_EQ(pe, gshmem_uint64_g(signal.data(), pe.me()), kSignals);
    pe.barrier();
  }
}

SPMD_TEST(queue_functions_of_every_type_reach_the_next_pe) {
  OwnedQueues queues(pe, 1);
  for (const int qp : {queues.list().handle[0], int{GSHMEMX_QP_DEFAULT}, int{GSHMEMX_QP_ANY}}) {
    SymmetricArray<std::uint64_t> memory(8), signal(1);
    every_type_by_queue(pe, qp, memory.data(), signal.data(), pe.next());
    pe.barrier();
    SPMD_EQ(pe, gshmem_uint64_g(signal.data(), pe.me()), kSignals + 7);
    pe.barrier();
  }
}

// Contexts: data, order and atomics by each of them, whatever its options; one thread per private
// context, all at the same time; how they come and go.
#include "tests/spmd/handles.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

using Queues = OwnedContexts::Queues;
constexpr int kContexts = 3;
constexpr long kOptions[] = {0, GSHMEM_CTX_SERIALIZED, GSHMEM_CTX_PRIVATE, GSHMEM_CTX_NOSTORE,
                             GSHMEM_CTX_PRIVATE | GSHMEM_CTX_NOSTORE};

// The C API of contexts for each type, on four elements that only this PE writes: what a context
// puts, it reads back.
#define CTX_RMA(NAME, T)                                                                   \
  T* there = static_cast<T*>(memory);                                                      \
  T source[4], back[4];                                                                    \
  for (int i = 0; i < 4; ++i) {                                                            \
    source[i] = element<T>(row + i);                                                       \
    back[i] = element<T>(0);                                                               \
  }                                                                                        \
  gshmem_ctx_##NAME##_put(ctx, there, source, 2, pe);                                      \
  gshmem_ctx_##NAME##_iput(ctx, there + 2, source + 2, 1, 1, 1, pe);                       \
  gshmem_ctx_##NAME##_p(ctx, there + 3, source[3], pe);                                    \
  gshmem_ctx_quiet(ctx);                                                                   \
  gshmem_ctx_##NAME##_get(ctx, back, there, 2, pe);                                        \
  gshmem_ctx_##NAME##_iget(ctx, back + 2, there + 2, 1, 1, 1, pe);                         \
  back[3] = gshmem_ctx_##NAME##_g(ctx, there + 3, pe);                                     \
  for (int i = 0; i < 4; ++i) SPMD_EQ(log, raw(back[i]), raw(source[i]), row);             \
  gshmem_ctx_##NAME##_put_nbi(ctx, there, source + 1, 3, pe);                              \
  gshmem_ctx_quiet(ctx);                                                                   \
  gshmem_ctx_##NAME##_get_nbi(ctx, back, there, 3, pe);                                    \
  gshmem_ctx_quiet(ctx);                                                                   \
  for (int i = 0; i < 3; ++i) SPMD_EQ(log, raw(back[i]), raw(source[i + 1]), row);         \
  gshmem_ctx_##NAME##_put_signal(ctx, there, source, 1, signal, 2, GSHMEM_SIGNAL_ADD, pe); \
  gshmem_ctx_##NAME##_put_signal_nbi(ctx, there + 1, source, 1, signal, 3, GSHMEM_SIGNAL_ADD, pe);
#define CTX_NONE(NAME, T) CTX_RMA(NAME, T)
#define CTX_EXT(NAME, T)                                                    \
  CTX_RMA(NAME, T)                                                          \
  gshmem_ctx_##NAME##_atomic_set(ctx, there, static_cast<T>(5), pe);        \
  gshmem_ctx_quiet(ctx);                                                    \
  SPMD_EQ(log, gshmem_ctx_##NAME##_atomic_swap(ctx, there, 6, pe), 5, row); \
  SPMD_EQ(log, gshmem_ctx_##NAME##_atomic_fetch(ctx, there, pe), 6, row);
#define CTX_STD(NAME, T)                                                         \
  CTX_EXT(NAME, T)                                                               \
  SPMD_EQ(log, gshmem_ctx_##NAME##_atomic_fetch_add(ctx, there, 2, pe), 6, row); \
  gshmem_ctx_##NAME##_atomic_add(ctx, there, 1, pe);                             \
  gshmem_ctx_##NAME##_atomic_inc(ctx, there, pe);                                \
  gshmem_ctx_quiet(ctx);                                                         \
  SPMD_EQ(log, gshmem_ctx_##NAME##_atomic_fetch_inc(ctx, there, pe), 10, row);   \
  SPMD_EQ(log, gshmem_ctx_##NAME##_atomic_compare_swap(ctx, there, 11, 3, pe), 11, row);
#define CTX_BIT(NAME, T)                                                           \
  CTX_STD(NAME, T)                                                                 \
  SPMD_EQ(log, gshmem_ctx_##NAME##_atomic_fetch_or(ctx, there, 4, pe), 3, row);    \
  gshmem_ctx_##NAME##_atomic_or(ctx, there, 8, pe);                                \
  gshmem_ctx_##NAME##_atomic_and(ctx, there, 14, pe);                              \
  gshmem_ctx_quiet(ctx);                                                           \
  SPMD_EQ(log, gshmem_ctx_##NAME##_atomic_fetch_and(ctx, there, 12, pe), 14, row); \
  gshmem_ctx_##NAME##_atomic_xor(ctx, there, 1, pe);                               \
  gshmem_ctx_quiet(ctx);                                                           \
  SPMD_EQ(log, gshmem_ctx_##NAME##_atomic_fetch_xor(ctx, there, 13, pe), 13, row);

struct EveryType {
  static constexpr std::uint64_t kSignalSum = 25 * (2 + 3);

  template <class T>
  GSHMEM_FN static T element(std::uint64_t i) {
    T value{};
    for (std::size_t byte = 0; byte < sizeof(T); ++byte) {
      reinterpret_cast<std::uint8_t*>(&value)[byte] = static_cast<std::uint8_t>(i + 3);
    }
    return value;
  }

  GSHMEM_FN void operator()(const LaunchContext&, Log log, gshmem_ctx_t ctx, void* memory,
                            std::uint64_t* signal, int pe) const {
    std::uint64_t row = 0;
#define GSHMEM_TYPE(NAME, T, AMO, WAIT) \
  {                                     \
    ++row;                              \
    CTX_##AMO(NAME, T)                  \
  }
#include <gshmem/types.def>
    gshmem_ctx_quiet(ctx);
  }
};

void test_every_type(Pe& pe, gshmem_ctx_t ctx) {
  SymmetricArray<std::uint64_t> memory(8), signal(1);
  if (pe.c_api_in_kernels()) {
    pe.run({}, EveryType{}, ctx, static_cast<void*>(memory.data()), signal.data(), pe.next());
    pe.barrier();
    SPMD_EQ(pe, gshmem_uint64_g(signal.data(), pe.me()), EveryType::kSignalSum);
  }
  pe.barrier();
}

}  // namespace

SPMD_TEST(contexts_of_all_options_move_data) {
  for (const long options : kOptions) {
    OwnedContexts contexts(pe, kContexts, options, Queues::kOwn);
    test_moves(pe, contexts.list(), 1, 20);
  }
}

SPMD_TEST(contexts_without_queues_of_their_own_move_data) {
  OwnedContexts contexts(pe, Handles::kMost, 0, Queues::kAsTheyCome);
  test_moves(pe, contexts.list(), 1, 12);
}

SPMD_TEST(default_context_by_its_name_moves_data) {
  Handles handles;
  handles.handle[handles.count++] = GSHMEM_CTX_DEFAULT;
  test_moves(pe, handles, 1, 20);
}

SPMD_TEST(threads_with_a_private_context_each_move_data_at_the_same_time) {
  for (const long options : {GSHMEM_CTX_PRIVATE, GSHMEM_CTX_SERIALIZED}) {
    OwnedContexts contexts(pe, 4, options, Queues::kOwn);
    test_moves(pe, contexts.list(), 4, 40);
  }
}

SPMD_TEST(atomics_of_contexts_are_atomic_to_each_other) {
  OwnedContexts contexts(pe, 4, GSHMEM_CTX_PRIVATE, Queues::kOwn);
  test_counts(pe, contexts.list(), 4);
}

SPMD_TEST(groups_put_with_signal_by_contexts) {
  OwnedContexts contexts(pe, kContexts, GSHMEM_CTX_PRIVATE, Queues::kOwn);
  for (const Scope scope : kScopes) test_signals(pe, contexts.list(), scope);
}

SPMD_TEST(contexts_of_their_own_post_to_no_other_queue) {
  OwnedContexts shared(pe, kContexts, 0, Queues::kOwn);
  test_own_queues(pe, shared.list());
  OwnedContexts exclusive(pe, kContexts, GSHMEM_CTX_PRIVATE, Queues::kOwn);
  test_own_queues(pe, exclusive.list());
}

SPMD_TEST(context_functions_of_every_type_reach_the_next_pe) {
  OwnedContexts contexts(pe, 1, 0, Queues::kOwn);
  test_every_type(pe, contexts.list().handle[0]);
  test_every_type(pe, GSHMEM_CTX_DEFAULT);
}

SPMD_TEST(context_functions_by_host_thread_reach_the_next_pe) {
  OwnedContexts contexts(pe, 2, 0, Queues::kOwn);
  SymmetricArray<int> words(4);
  for (int k = 0; k < 2; ++k) {
    const gshmem_ctx_t ctx = contexts.list().handle[k];
    const int source[2] = {pe.me() + 10 * k + 1, -5};
    gshmem_ctx_int_put(ctx, words.data() + 2 * k, source, 2, pe.next());
    gshmem_ctx_quiet(ctx);
    SPMD_EQ(pe, gshmem_ctx_int_g(ctx, words.data() + 2 * k, pe.next()), source[0]);
    SPMD_EQ(pe, gshmem_ctx_int_atomic_fetch_add(ctx, words.data() + 2 * k + 1, 7, pe.next()), -5);
    gshmem_ctx_fence(ctx);
  }
  pe.barrier();
  for (int k = 0; k < 2; ++k) {
    SPMD_EQ(pe, gshmem_int_g(words.data() + 2 * k, pe.me()), pe.previous() + 10 * k + 1);
    SPMD_EQ(pe, gshmem_int_g(words.data() + 2 * k + 1, pe.me()), 2);
  }
  pe.barrier();
}

SPMD_TEST(contexts_come_and_go) {
  gshmem_ctx_t first = GSHMEM_CTX_INVALID;
  for (int i = 0; i < 3; ++i) {
    gshmem_ctx_t ctx = GSHMEM_CTX_INVALID;
    gshmem_team_t team = GSHMEM_TEAM_INVALID;
    SPMD_EQ(pe, gshmem_ctx_create(GSHMEM_CTX_PRIVATE, &ctx), 0);
    SPMD_CHECK(pe, ctx != GSHMEM_CTX_INVALID && ctx != GSHMEM_CTX_DEFAULT && ctx != first);
    SPMD_EQ(pe, gshmem_ctx_get_team(ctx, &team), 0);
    SPMD_EQ(pe, team, static_cast<int>(GSHMEM_TEAM_WORLD));
    SPMD_EQ(pe, gshmem_ctx_get_team(ctx, nullptr), -1);
    gshmem_ctx_destroy(ctx);
    SPMD_CHECK(pe, gshmem_ctx_get_team(ctx, &team) != 0);
    SPMD_EQ(pe, team, static_cast<int>(GSHMEM_TEAM_INVALID));
    if (i == 0) first = ctx;
  }
  gshmem_team_t team = GSHMEM_TEAM_INVALID;
  SPMD_EQ(pe, gshmem_ctx_get_team(GSHMEM_CTX_DEFAULT, &team), 0);
  SPMD_EQ(pe, team, static_cast<int>(GSHMEM_TEAM_WORLD));
  gshmem_ctx_destroy(GSHMEM_CTX_INVALID);

  gshmem_ctx_t ctx = GSHMEM_CTX_DEFAULT;
  SPMD_EQ(pe, gshmem_ctx_create(64, &ctx), static_cast<int>(GSHMEMX_ERROR_INVALID_VALUE));
  SPMD_EQ(pe, ctx, static_cast<int>(GSHMEM_CTX_INVALID));
  SPMD_EQ(pe, gshmem_ctx_create(0, nullptr), static_cast<int>(GSHMEMX_ERROR_INVALID_VALUE));
}

SPMD_TEST(too_many_contexts_are_an_error_and_the_others_work) {
  std::vector<gshmem_ctx_t> contexts;
  gshmem_ctx_t ctx = GSHMEM_CTX_INVALID;
  int status = GSHMEMX_SUCCESS;
  while ((status = gshmem_ctx_create(0, &ctx)) == GSHMEMX_SUCCESS) contexts.push_back(ctx);
  SPMD_EQ(pe, status, static_cast<int>(GSHMEMX_ERROR_OUT_OF_MEMORY));
  SPMD_EQ(pe, ctx, static_cast<int>(GSHMEM_CTX_INVALID));
  SPMD_EQ(pe, contexts.size(), std::size_t{1024});
  SymmetricArray<int> word(1);
  gshmem_ctx_int_p(contexts.back(), word.data(), pe.me() + 1, pe.next());
  gshmem_ctx_quiet(contexts.back());
  pe.barrier();
  SPMD_EQ(pe, gshmem_int_g(word.data(), pe.me()), pe.previous() + 1);
  gshmem_ctx_destroy(contexts.front());
  SPMD_EQ(pe, gshmem_ctx_create(0, &contexts.front()), 0);
  for (const gshmem_ctx_t each : contexts) gshmem_ctx_destroy(each);
  pe.barrier();
}

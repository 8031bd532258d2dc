// Contexts: data, order and atomics on each of them, whatever its options; one thread per private
// context, all at the same time; creation and destruction.
#include "tests/spmd/handles.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

using Queues = OwnedContexts::Queues;
constexpr int kContexts = 3;
constexpr long kOptions[] = {0, GSHMEM_CTX_SERIALIZED, GSHMEM_CTX_PRIVATE, GSHMEM_CTX_NOSTORE,
                             GSHMEM_CTX_PRIVATE | GSHMEM_CTX_NOSTORE};

}  // namespace

SPMD_TEST(contexts_of_all_options_move_data) {
  for (const long options : kOptions) {
    OwnedContexts contexts(pe, kContexts, options, Queues::kOwn);
    test_moves(pe, contexts.list(), 1, 20);
    // Only if the program promises to use it by one thread at a time, its queue need not be shared.
    if (pe.on_gpu() || !pe.on_network()) continue;
    const abi::ContextEntry* const entries = gshmemi_ambient()->state->contexts;
    const auto handle = static_cast<std::uint32_t>(contexts.list().handle[0]);
    const std::uint32_t traits = entries[handle & (abi::kMaxContexts - 1)].state->nic.traits;
    SPMD_EQ(pe, (traits & abi::QueueTraits::kExclusive) != 0,
            (options & (GSHMEM_CTX_PRIVATE | GSHMEM_CTX_SERIALIZED)) != 0);
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

SPMD_TEST(threads_that_share_a_context_move_data_at_the_same_time) {
  OwnedContexts contexts(pe, 1, 0, Queues::kOwn);
  Handles shared;
  while (shared.count < 4) shared.handle[shared.count++] = contexts.list().handle[0];
  test_moves(pe, shared, 4, 40);
  test_counts(pe, shared, 4);
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

SPMD_TEST(all_queues_of_destroyed_handles_serve_contexts) {
  for (const int count : {kContexts, 1}) OwnedQueues(pe, count);
  OwnedContexts contexts(pe, kContexts, 0, Queues::kAsTheyCome);
  test_own_queues(pe, contexts.list());
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

SPMD_TEST(sessions_are_hints) {
  SymmetricArray<int> word(1);
  gshmem_ctx_t own = GSHMEM_CTX_INVALID;
  SPMD_EQ(pe, gshmem_ctx_create(0, &own), 0);
  const gshmem_ctx_session_config_t config{.total_ops = 1};
  for (const gshmem_ctx_t ctx : {own, gshmem_ctx_t{GSHMEM_CTX_DEFAULT}}) {
    gshmem_ctx_session_start(ctx, GSHMEM_CTX_SESSION_BATCH, &config, GSHMEM_CTX_SESSION_TOTAL_OPS);
    gshmem_ctx_int_p(ctx, word.data(), ctx + 1, pe.next());
    gshmem_ctx_session_stop(ctx);
    gshmem_ctx_quiet(ctx);
    pe.barrier();
    SPMD_EQ(pe, gshmem_int_g(word.data(), pe.next()), ctx + 1);
    pe.barrier();
  }
  gshmem_ctx_session_start(GSHMEM_CTX_INVALID, 0, nullptr, 0);
  gshmem_ctx_session_stop(GSHMEM_CTX_INVALID);
  gshmem_ctx_destroy(own);
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

SPMD_TEST(destroying_a_context_completes_its_operations) {
  constexpr std::size_t kWords = 1 << 15;
  SymmetricArray<std::uint64_t> words(2 * kWords);
  std::uint64_t* const landing = words.data() + kWords;
  const auto value = [](int who, int round) {
    return static_cast<std::uint64_t>(10 * who + round);
  };
  for (int round = 1; round <= 3; ++round) {
    for (const std::size_t at : {std::size_t{0}, kWords - 1})
      gshmem_uint64_p(words.data() + at, value(pe.me(), round), pe.me());
    pe.barrier();
    OwnedQueues(pe, 1);  // the context uses its queue
    gshmem_ctx_t ctx = GSHMEM_CTX_INVALID;
    SPMD_EQ(pe, gshmem_ctx_create(0, &ctx), 0);
    gshmem_ctx_uint64_get_nbi(ctx, landing, words.data(), kWords, pe.next());
    gshmem_ctx_destroy(ctx);
    for (const std::size_t at : {kWords - 1, std::size_t{0}})
      SPMD_EQ(pe, gshmem_uint64_g(landing + at, pe.me()), value(pe.next(), round));
    pe.barrier();
  }
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

// Contexts of teams: every kind of call on one names PEs by their numbers in the team, in kernels
// and on host threads, for teams of every shape. Also the configuration of teams.
#include "tests/spmd/handles.h"
#include "tests/spmd/teams.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// The data that members write to each other: that of member i is at index i of each array, except
/// the sum.
struct Board {
  std::uint64_t *single, *several, *fetched, *signals, *sum, *source;
  static constexpr int kSeveral = 3;
  static std::size_t words(int n) {
    return static_cast<std::size_t>(n) * (3 + kSeveral) + 1 + kSeveral;
  }
  static Board at(std::uint64_t* words, int n) {
    return {words,
            words + 3 * n,
            words + n,
            words + 2 * n,
            words + (3 + kSeveral) * n,
            words + (3 + kSeveral) * n + 1};
  }
};

GSHMEM_FN std::uint64_t value(int from, int to, int what) {
  return static_cast<std::uint64_t>(((from + 1) * 1000 + to) * 10 + what);
}

/// Member `to` of the team receives one of each; its own word for this one was there before.
GSHMEM_FN void send(gshmem_ctx_t ctx, const Board& board, int me, int to) {
  constexpr int kSeveral = Board::kSeveral;
  gshmem_ctx_uint64_p(ctx, board.single + me, value(me, to, 1), to);
  for (int i = 0; i < kSeveral; ++i)
    gshmem_uint64_p(board.source + i, value(me, to, 2 + i), gshmem_my_pe());
  gshmem_quiet();
  gshmem_ctx_uint64_put_signal(ctx, board.several + kSeveral * me, board.source, kSeveral,
                               board.signals + me, 7, GSHMEM_SIGNAL_SET, to);
  gshmem_ctx_uint64_atomic_add(ctx, board.sum, 1u << me, to);
  std::uint64_t old = 1;
  gshmem_ctx_uint64_atomic_fetch_add_nbi(ctx, &old, board.fetched + me, 5, to);
  const int pes[] = {to};
  gshmem_ctx_pe_quiet(ctx, pes, 1);
  gshmem_ctx_fence(ctx);
}

/// All members have sent.
GSHMEM_FN void check(Log log, gshmem_ctx_t ctx, const Board& board, int me, int n) {
  const int pe = gshmem_my_pe();
  for (int from = 0; from < n; ++from) {
    const std::uint64_t tag = static_cast<std::uint64_t>(100 * n + from);
    SPMD_EQ(log, gshmem_uint64_g(board.single + from, pe), value(from, me, 1), tag);
    for (int i = 0; i < Board::kSeveral; ++i) {
      SPMD_EQ(log, gshmem_uint64_g(board.several + Board::kSeveral * from + i, pe),
              value(from, me, 2 + i), tag);
    }
    SPMD_EQ(log, gshmem_uint64_g(board.signals + from, pe), 7u, tag);
    SPMD_EQ(log, gshmem_uint64_g(board.fetched + from, pe), 5u, tag);
    SPMD_EQ(log, gshmem_ctx_uint64_g(ctx, board.single + me, from), value(me, from, 1), tag);
  }
  SPMD_EQ(log, gshmem_uint64_g(board.sum, pe), (std::uint64_t{1} << n) - 1);
}

GSHMEM_FN void exchange(Log log, gshmem_ctx_t ctx, gshmem_team_t team, const Board& board) {
  const int me = gshmem_team_my_pe(team), n = gshmem_team_n_pes(team);
  for (int i = 0; i < n; ++i) send(ctx, board, me, (me + i) % n);
  gshmem_ctx_quiet(ctx);
  SPMD_EQ(log, gshmem_team_sync(team), 0);
  check(log, ctx, board, me, n);
  SPMD_EQ(log, gshmem_team_sync(team), 0);
}

struct ExchangeInKernel {
  GSHMEM_FN void operator()(const LaunchContext&, Log log, gshmem_ctx_t ctx, gshmem_team_t team,
                            Board board) const {
    exchange(log, ctx, team, board);
  }
};

/// Groups put together.
struct PutByBlock {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, gshmem_ctx_t by, gshmem_team_t team,
                            Board board) const {
    const int me = gshmem_team_my_pe(team), n = gshmem_team_n_pes(team);
    for (int to = 0; to < n; ++to) {
      if (ctx.thread_rank() == 0) board.source[0] = value(me, to, 4);
      gshmemx_ctx_uint64_put_block(by, board.single + me, board.source, 1, to);
    }
    if (ctx.thread_rank() == 0) gshmem_ctx_quiet(by);
    SPMD_EQ(log, gshmemx_team_sync_block(team), 0);
    for (int from = ctx.thread_rank(); from < n; from += ctx.block_size()) {
      SPMD_EQ(log, board.single[from], value(from, me, 4));
    }
    ctx.block().sync();
    SPMD_EQ(log, gshmemx_team_sync_block(team), 0);
  }
};

/// Calls `work(ctx, team)` for a context of every team that this PE is in.
template <class Work>
void for_each_team_context(Pe& pe, const Work& work) {
  constexpr long kOptions[] = {0, GSHMEM_CTX_SERIALIZED, GSHMEM_CTX_PRIVATE};
  std::size_t at = 0;
  for (const OwnTeam& team : teams_of(pe)) {
    gshmem_ctx_t ctx = 77;
    const int status = gshmem_team_create_ctx(team.get(), kOptions[at++ % 3], &ctx);
    gshmem_team_t of = 77;
    if (team.get() == GSHMEM_TEAM_INVALID) {
      SPMD_EQ(pe, status, static_cast<int>(GSHMEMX_ERROR_INVALID_VALUE));
      SPMD_EQ(pe, ctx, static_cast<int>(GSHMEM_CTX_INVALID));
    } else {
      SPMD_EQ(pe, status, 0);
      SPMD_EQ(pe, gshmem_ctx_get_team(ctx, &of), 0);
      SPMD_EQ(pe, of, team.get());
      work(ctx, team.get());
      gshmem_ctx_destroy(ctx);
      SPMD_EQ(pe, gshmem_ctx_get_team(ctx, &of), -1);
    }
    pe.barrier();
  }
}

void test_exchange(Pe& pe) {
  const std::size_t words = Board::words(pe.n());
  const std::vector<std::uint8_t> zeros(words * sizeof(std::uint64_t));
  SymmetricArray<std::uint64_t> memory(words);
  const Board board = Board::at(memory.data(), pe.n());
  for_each_team_context(pe, [&](gshmem_ctx_t ctx, gshmem_team_t team) {
    const auto clear = [&] {
      gshmem_team_sync(team);
      pe.write(memory.data(), zeros);
      gshmem_team_sync(team);
    };
    clear();
    exchange(pe.host_log(), ctx, team, board);
    if (!pe.c_api_in_kernels()) return;
    clear();
    pe.run({.blocks = 1, .threads = 1}, ExchangeInKernel{}, ctx, team, board);
    clear();
    pe.run(one_group(pe, Scope::kBlock), PutByBlock{}, ctx, team, board);
  });
}

struct OrderNothing {
  GSHMEM_FN void operator()(const LaunchContext&, Log) const {
    gshmem_ctx_fence(GSHMEM_CTX_INVALID);
    gshmem_ctx_quiet(GSHMEM_CTX_INVALID);
    gshmem_ctx_pe_quiet(GSHMEM_CTX_INVALID, nullptr, 1);
  }
};

}  // namespace

SPMD_TEST(contexts_of_teams_name_pes_by_their_numbers_in_the_team) { test_exchange(pe); }

SPMD_TEST(contexts_of_teams_with_queues_of_their_own_do_so) {
  { const OwnedContexts make(pe, 2, 0, OwnedContexts::Queues::kOwn); }
  test_exchange(pe);
}

SPMD_TEST(context_of_a_team_by_its_handle_in_cpp_names_pes_by_their_numbers_in_the_job) {
  SymmetricArray<std::uint64_t> words(static_cast<std::size_t>(pe.n()));
  const OwnTeam turned = split(pe, GSHMEM_TEAM_WORLD, pe.n() - 1, -1, pe.n());
  gshmem_ctx_t ctx = GSHMEM_CTX_INVALID;
  SPMD_EQ(pe, gshmem_team_create_ctx(turned.get(), 0, &ctx), 0);
  const Context by = context().on(ctx);
  for (int to = 0; to < pe.n(); ++to) by.p(words.data() + pe.me(), value(pe.me(), to, 0), to);
  by.quiet();
  pe.barrier();
  for (int from = 0; from < pe.n(); ++from) {
    SPMD_EQ(pe, gshmem_uint64_g(words.data() + from, pe.me()), value(from, pe.me(), 0));
  }
  gshmem_ctx_destroy(ctx);
  pe.barrier();
}

SPMD_TEST(teams_keep_their_configuration) {
  gshmem_team_config_t config = GSHMEM_TEAM_CONFIG_INITIALIZER;
  config.num_contexts = 3;
  gshmem_team_t team = 77;
  SPMD_EQ(pe,
          gshmem_team_split_strided(GSHMEM_TEAM_WORLD, 0, 1, pe.n(), &config,
                                    GSHMEM_TEAM_NUM_CONTEXTS, &team),
          0);
  gshmem_team_config_t got = GSHMEM_TEAM_CONFIG_INITIALIZER;
  SPMD_EQ(pe, gshmem_team_get_config(team, GSHMEM_TEAM_NUM_CONTEXTS, &got), 0);
  SPMD_EQ(pe, got.num_contexts, 3);
  SPMD_EQ(pe, got.uniqueid, UINT64_MAX);
  // Fields that the mask does not name do not change.
  got.num_contexts = 7;
  got.uniqueid = 7;
  SPMD_EQ(pe, gshmem_team_get_config(team, 0, &got), 0);
  SPMD_CHECK(pe, got.num_contexts == 7 && got.uniqueid == 7);
  SPMD_EQ(pe, gshmem_team_get_config(team, GSHMEMX_TEAM_UNIQUEID, &got), 0);
  SPMD_CHECK(pe, got.num_contexts == 7 && got.uniqueid == UINT64_MAX);
  // With a mask without fields the config is ignored; a wish for no contexts is valid, too.
  gshmem_team_t plain = 77, id = 77;
  gshmem_team_config_t none = GSHMEM_TEAM_CONFIG_INITIALIZER;
  none.num_contexts = 0;
  none.uniqueid = 5;
  const auto split = [&](long mask, gshmem_team_t* made) {
    return gshmem_team_split_strided(GSHMEM_TEAM_WORLD, 0, 1, pe.n(), &none, mask, made);
  };
  const long both = GSHMEM_TEAM_NUM_CONTEXTS | GSHMEMX_TEAM_UNIQUEID;
  SPMD_EQ(pe, split(0, &plain), 0);
  SPMD_EQ(pe, split(both, &id), 0);
  SPMD_EQ(pe, gshmem_team_get_config(plain, both, &got), 0);
  SPMD_CHECK(pe, got.num_contexts == 0 && got.uniqueid == UINT64_MAX);
  SPMD_EQ(pe, gshmem_team_get_config(id, GSHMEMX_TEAM_UNIQUEID, &got), 0);
  SPMD_EQ(pe, got.uniqueid, std::uint64_t{5});
  gshmem_team_destroy(plain);
  gshmem_team_destroy(id);
  SPMD_EQ(pe, gshmem_team_get_config(GSHMEM_TEAM_WORLD, GSHMEM_TEAM_NUM_CONTEXTS, &got), 0);
  SPMD_CHECK(pe, gshmem_team_get_config(GSHMEM_TEAM_INVALID, GSHMEM_TEAM_NUM_CONTEXTS, &got) != 0);
  for (const long mask : {0L, long{GSHMEM_TEAM_NUM_CONTEXTS}})
    SPMD_CHECK(pe, gshmem_team_get_config(team, mask, nullptr) != 0);
  gshmem_team_destroy(team);
  SPMD_CHECK(pe, gshmem_team_get_config(team, GSHMEM_TEAM_NUM_CONTEXTS, &got) != 0);
}

SPMD_TEST(fence_and_quiet_of_an_invalid_context_do_nothing) {
  if (pe.c_api_in_kernels()) pe.run({}, OrderNothing{});
  gshmem_ctx_fence(GSHMEM_CTX_INVALID);
  gshmem_ctx_quiet(GSHMEM_CTX_INVALID);
  gshmem_ctx_pe_quiet(GSHMEM_CTX_INVALID, nullptr, 1);
  SPMD_EQ(pe, gshmemx_last_fault(nullptr), 0);
}

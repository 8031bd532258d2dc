// barrier_all and sync_all: no thread leaves before all PEs have entered, however many calls follow
// each other, in every scope; a barrier completes earlier operations.
#include "tests/spmd/groups.h"

#include <algorithm>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

enum class Kind { kBarrier, kSync, kByName };

/// Makes barriers and syncs of groups alternately, by their names in the C API, each with a status.
GSHMEM_FN int by_name(Scope scope, int round) {
  const bool is_warp = scope == Scope::kWarp;
  const int status = is_warp ? gshmemx_quiet_status_warp() : gshmemx_quiet_status_block();
  if (status != 0) return status;
  if (round % 4 == 0) {
    is_warp ? gshmemx_barrier_all_warp() : gshmemx_barrier_all_block();
    return 0;
  }
  if (round % 4 == 1) {
    is_warp ? gshmemx_sync_all_warp() : gshmemx_sync_all_block();
    return 0;
  }
  constexpr gshmem_team_t kWorld = GSHMEM_TEAM_WORLD;
  if (round % 4 == 2) return is_warp ? gshmemx_barrier_warp(kWorld) : gshmemx_barrier_block(kWorld);
  return is_warp ? gshmemx_team_sync_warp(kWorld) : gshmemx_team_sync_block(kWorld);
}

/// `entered[0]` of a PE is the number of the barrier that it is about to enter.
struct BarrierRounds {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* entered, int rounds,
                            Scope scope, Kind kind) const {
    with_group(ctx, scope, [&](auto group) {
      for (int round = 1; round <= rounds; ++round) {
        const std::uint64_t now = static_cast<std::uint64_t>(round);
        if (group.thread_rank() == 0) {
          ctx.atomic_set(entered, now, ctx.my_pe());
          if (kind == Kind::kSync) ctx.quiet();  // sync_all completes stores, not updates
        }
        if (kind == Kind::kBarrier)
          ctx.barrier_all(group);
        else if (kind == Kind::kSync)
          ctx.sync_all(group);
        else
          SPMD_EQ(log, by_name(scope, round), 0, now);
        for (int pe = group.thread_rank(); pe < ctx.n_pes(); pe += group.size()) {
          const std::uint64_t seen = ctx.atomic_fetch(entered, pe);
          if (seen < now || seen > now + 1) SPMD_EQ(log, seen, now, now);
        }
      }
    });
  }
};

void test_rounds(Pe& pe, Kind kind) {
  SymmetricArray<std::uint64_t> entered(1);
  for (const Scope scope : kScopes) {
    if (kind == Kind::kByName && scope == Scope::kThread) continue;
    pe.run(one_group(pe, scope), BarrierRounds{}, entered.data(),
           pe.rounds(kind == Kind::kByName ? 100 : 1000), scope, kind);
    pe.barrier();
    gshmem_uint64_p(entered.data(), 0, pe.me());
    pe.barrier();
  }
}

/// Makes plain and nbi puts to the next PE, a barrier, then plain loads there.
struct CompletingBarrier {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint32_t* data, int rounds,
                            Scope scope) const {
    constexpr int kWords = 100;
    std::uint32_t* source = data + kWords;
    with_group(ctx, scope, [&](auto group) {
      for (int round = 1; round <= rounds; ++round) {
        const int to = (ctx.my_pe() + round) % ctx.n_pes();
        const int from = (ctx.my_pe() + ctx.n_pes() - round % ctx.n_pes()) % ctx.n_pes();
        for (int i = group.thread_rank(); i < kWords; i += group.size()) {
          source[i] = value(ctx.my_pe(), round, i);
        }
        group.sync();
        ctx.put_nbi(group, data, source, kWords, to);
        ctx.barrier_all(group);
        for (int i = group.thread_rank(); i < kWords; i += group.size()) {
          SPMD_EQ(log, data[i], value(from, round, i), static_cast<std::uint64_t>(round));
        }
        ctx.barrier_all(group);
      }
    });
  }
  GSHMEM_FN static std::uint32_t value(int pe, int round, int i) {
    return static_cast<std::uint32_t>((pe * 1000 + round) * 100 + i);
  }
};

/// Two blocks of a PE make barriers alternately, the next one as soon as any thread has left. The
/// first thread leaves late.
struct BarriersInTurn {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* entered,
                            std::uint64_t* turn, int rounds) const {
    Dawdling<Block> group{};
    group.late = group.thread_rank() == 0;
    const bool last = group.thread_rank() == group.size() - 1;
    for (int round = 1 + ctx.block_rank(); round <= rounds; round += ctx.grid_size()) {
      const std::uint64_t now = static_cast<std::uint64_t>(round);
      if (last) {
        ctx.wait_until(turn, Cmp::kEq, now - 1);
        ctx.atomic_set(entered, now, ctx.my_pe());
      }
      ctx.barrier_all(group);
      if (!last) continue;
      for (int pe = 0; pe < ctx.n_pes(); ++pe) {
        const std::uint64_t seen = ctx.atomic_fetch(entered, pe);
        if (seen < now || seen > now + 1) SPMD_EQ(log, seen, now, now);
      }
      ctx.atomic_set(turn, now, ctx.my_pe());
    }
  }
};

}  // namespace

SPMD_TEST(barrier_all_holds_all_pes_until_all_have_entered) { test_rounds(pe, Kind::kBarrier); }
SPMD_TEST(sync_all_holds_all_pes_until_all_have_entered) { test_rounds(pe, Kind::kSync); }

SPMD_TEST(barriers_and_syncs_of_groups_by_their_names_hold_all_pes) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  test_rounds(pe, Kind::kByName);
}

SPMD_TEST(barrier_all_completes_puts_before_it) {
  SymmetricArray<std::uint32_t> data(200);
  for (const Scope scope : kScopes) {
    pe.run(one_group(pe, scope), CompletingBarrier{}, data.data(), pe.rounds(200), scope);
    pe.barrier();
  }
}

SPMD_TEST(barrier_all_holds_a_group_that_follows_another_one) {
  SymmetricArray<std::uint64_t> words(2);
  pe.run({.blocks = 2, .threads = shape_of(pe, Scope::kBlock).threads}, BarriersInTurn{},
         words.data(), words.data() + 1, std::max(pe.rounds(100), 10));
}

SPMD_TEST(barrier_all_by_host_threads_holds_all_pes) {
  SymmetricArray<std::uint64_t> entered(1);
  const int rounds = pe.rounds(1000);
  for (int round = 1; round <= rounds; ++round) {
    const auto now = static_cast<std::uint64_t>(round);
    // gshmem-check: ignore, since the next value may come while another PE reads this one
    gshmem_uint64_p(entered.data(), now, pe.me());
    gshmem_quiet();
    if (round % 2)
      gshmem_barrier_all();
    else
      gshmem_sync_all();
    const std::uint64_t seen = gshmem_uint64_g(entered.data(), (pe.me() + round) % pe.n());
    SPMD_CHECK(pe, seen == now || seen == now + 1);
  }
}

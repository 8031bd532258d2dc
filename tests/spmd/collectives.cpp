// Collectives against a sequential model: every one, in every scope, on teams of every shape, with
// random counts, one directly after the other. Some threads come late.
#include "tests/spmd/collective_model.h"
#include "tests/spmd/late.h"
#include "tests/spmd/teams.h"

#include <algorithm>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

enum class Move { kAlltoall, kAlltoalls, kBroadcast, kFcollect, kCollect };
constexpr Move kMoves[] = {Move::kAlltoall, Move::kAlltoalls, Move::kBroadcast, Move::kFcollect,
                           Move::kCollect};
GSHMEM_FN bool has_parts(Move move) { return move == Move::kAlltoall || move == Move::kAlltoalls; }

/// The bytes that one member sends to another at most, and memory for all members' data of two
/// rounds: a member that has entered a round has finished the one before.
struct MoveMemory {
  std::uint8_t *source, *dest;
  std::size_t most, members;
  GSHMEM_FN std::uint8_t* dest_of(int round) const {
    return dest + static_cast<std::size_t>(round % 2) * most * members;
  }
};

/// The data of round `round`.
struct MoveRound {
  std::uint64_t seed;
  int round;
  GSHMEM_FN std::uint64_t random(std::uint64_t what) const {
    return mix(seed, static_cast<std::uint64_t>(round) * 8 + what);
  }
  /// Returns the bytes of member `member`: sometimes none, and more often few than many.
  GSHMEM_FN std::size_t bytes(Move move, int member, std::size_t most) const {
    const std::uint64_t r =
        move == Move::kCollect ? mix(random(0), static_cast<std::uint64_t>(member)) : random(0);
    return r % 7 == 0 ? 0 : r % 3 == 0 && move != Move::kAlltoalls ? r / 8 % most : r / 8 % 40;
  }
  /// Returns the stride between elements of `dest` and of `source`.
  GSHMEM_FN std::size_t stride(Move move, std::uint64_t of) const {
    return move == Move::kAlltoalls ? 1 + random(3 + of) % 3 : 1;
  }
  GSHMEM_FN std::uint8_t byte(int pe, std::size_t at) const {
    return pattern(mix(random(1), static_cast<std::uint64_t>(pe)), at);
  }
};

constexpr std::uint8_t kUntouched = 0xee;

/// Runs `rounds` rounds, which write their sources and check the data that has arrived.
struct MoveRounds {
  template <class Group>
  GSHMEM_FN static int make(const LaunchContext& ctx, Group group, Move move, gshmem_team_t team,
                            std::uint8_t* dest, const std::uint8_t* source, device::Strides strides,
                            int root) {
    switch (move) {
      case Move::kAlltoall:
        return ctx.alltoall(group, team, dest, source, strides.nelems);
      case Move::kAlltoalls:
        return ctx.alltoalls(group, team, dest, source, strides);
      case Move::kFcollect:
        return ctx.fcollect(group, team, dest, source, strides.nelems);
      case Move::kCollect:
        return ctx.collect(group, team, dest, source, strides.nelems);
      case Move::kBroadcast:
        break;
    }
    return ctx.broadcast(group, team, dest, source, strides.nelems, root);
  }
  template <class Group>
  GSHMEM_FN static void once(const LaunchContext& ctx, Log log, Group group, MoveMemory memory,
                             Move move, gshmem_team_t team, int round, std::uint64_t seed) {
    const std::size_t width = static_cast<std::size_t>(group.size());
    const std::size_t rank = static_cast<std::size_t>(group.thread_rank());
    const int n = ctx.team_n_pes(team), me = ctx.team_my_pe(team);
    const MoveRound now{seed, round};
    if (round % 4 == 1 && is_late(group, now.random(5))) come_late();
    const std::size_t bytes = now.bytes(move, me, memory.most);
    const std::size_t dst = now.stride(move, 0), sst = now.stride(move, 1);
    const int root = static_cast<int>(now.random(2) % static_cast<std::uint64_t>(n));
    const std::size_t parts = has_parts(move) ? static_cast<std::size_t>(n) : 1;
    for (std::size_t i = rank; i < bytes * parts; i += width) {
      memory.source[i * sst] = now.byte(ctx.my_pe(), i);
    }
    std::uint8_t* const dest = memory.dest_of(round);
    if (move == Move::kAlltoalls) {  // no PE writes for the next one before all are here
      for (std::size_t i = rank; i < memory.most * parts; i += width) {
        memory.dest_of(round + 1)[i] = kUntouched;
      }
    }
    const int status =
        make(ctx, group, move, team, dest, memory.source,
             {static_cast<std::ptrdiff_t>(dst), static_cast<std::ptrdiff_t>(sst), bytes}, root);
    SPMD_EQ(log, status, 0, static_cast<std::uint64_t>(round));
    std::size_t at = 0;
    for (int from = 0; from < (move == Move::kBroadcast ? 1 : n); ++from) {
      const int member = move == Move::kBroadcast ? root : from;
      const int pe = ctx.team_translate_pe(team, member, GSHMEM_TEAM_WORLD);
      const std::size_t theirs = now.bytes(move, member, memory.most);
      const std::size_t first = has_parts(move) ? static_cast<std::size_t>(me) * bytes : 0;
      for (std::size_t i = rank; i < theirs; i += width) {
        const std::uint8_t* const got = dest + (at + i) * dst;
        const bool spoilt = round > 0 && dst > 1 && got[1] != kUntouched;
        if (got[0] == now.byte(pe, first + i) && !spoilt) continue;
        SPMD_EQ(log, got[0], now.byte(pe, first + i), i);
        SPMD_CHECK(log, !spoilt);
        break;
      }
      at += theirs;
    }
    group.sync();  // another thread may check a thread's source
  }
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, MoveMemory memory, Move move,
                            Scope scope, gshmem_team_t team, int rounds, std::uint64_t seed) const {
    with_group(ctx, scope, [&](auto group) {
      for (int round = 0; round < rounds; ++round) {
        once(ctx, log, group, memory, move, team, round, seed);
      }
    });
  }
};

/// The elements of each array, which are the longest call, and a shift that 16 bytes do not divide.
constexpr std::size_t kElements = 700;
/// The longest call: over the network each element of 16 bytes is a round trip.
template <class T>
constexpr std::size_t kLongest = sizeof(T) < 16 ? kElements - 3 : 150;

template <class T, ReduceOp kOp>
struct ReduceRounds {
  template <class Group>
  GSHMEM_FN static int make(const LaunchContext& ctx, Group group, Way way, gshmem_team_t team,
                            T* dest, const T* source, std::size_t count) {
    if (way == Way::kReducescatter)
      return ctx.template reducescatter<kOp>(group, team, dest, source, count);
    if constexpr (kOp == ReduceOp::kSum) {
      if (way == Way::kInscan) return ctx.template inscan<kOp>(group, team, dest, source, count);
      if (way == Way::kExscan) return ctx.template exscan<kOp>(group, team, dest, source, count);
    }
    return ctx.template reduce<kOp>(group, team, dest, source, count);
  }
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, char* memory, Way way, Scope scope,
                            gshmem_team_t team, int rounds, std::uint64_t base) const {
    with_group(ctx, scope, [&](auto group) {
      const std::size_t width = static_cast<std::size_t>(group.size());
      const std::size_t rank = static_cast<std::size_t>(group.thread_rank());
      const int n = ctx.team_n_pes(team), me = ctx.team_my_pe(team);
      const std::size_t parts = way == Way::kReducescatter ? static_cast<std::size_t>(n) : 1;
      for (int round = 0; round < rounds; ++round) {
        const std::uint64_t seed = mix(base, static_cast<std::uint64_t>(round));
        const std::size_t shift = seed / 64 % 4 == 0 ? seed / 256 % 3 : 0;
        const std::size_t count = seed % 5 == 0   ? 0
                                  : seed % 3 == 0 ? seed / 7 % (kLongest<T> / parts)
                                                  : seed / 7 % 20;
        // The arrays alternate, since members may still check the last result.
        T* const source = reinterpret_cast<T*>(memory) + shift +
                          static_cast<std::size_t>(round % 2) * 2 * kElements;
        T* const own =
            way == Way::kReducescatter ? source + static_cast<std::size_t>(me) * count : source;
        T* const dest = seed / 1024 % 3 == 0 ? own : source + kElements;
        if (round % 4 == 1 && is_late(group, seed)) come_late();
        for (std::size_t i = rank; i < count * parts; i += width) {
          source[i] = element_of<T>(number_in<T>(seed, ctx.my_pe(), i));
        }
        const int status = make(ctx, group, way, team, dest, source, count);
        SPMD_EQ(log, status, 0, static_cast<std::uint64_t>(round));
        for (std::size_t i = rank; i < count; i += width) {
          const T expected = result_of<T>(way, kOp, seed, me, n, count, i, [&](int k) {
            return ctx.team_translate_pe(team, k, GSHMEM_TEAM_WORLD);
          });
          if (is_same(dest[i], expected)) continue;
          SPMD_EQ(log, i, kElements + 1, static_cast<std::uint64_t>(round));
          break;
        }
        group.sync();
      }
    });
  }
};

template <class T, ReduceOp kOp>
void test_reduce(Pe& pe, int rounds) {
  SymmetricArray<T> memory(4 * kElements + 8);
  for (const OwnTeam& team : teams_of(pe)) {
    for (const Scope scope : kScopes) {
      for (const Way way : kWays) {
        if (way >= Way::kInscan && kOp != ReduceOp::kSum) continue;
        if (way == Way::kReducescatter && kOp == ReduceOp::kMaxloc) continue;
        if (!pe.draws()) continue;
        if (team.get() != GSHMEM_TEAM_INVALID) {
          pe.run(one_group(pe, scope), ReduceRounds<T, kOp>{},
                 reinterpret_cast<char*>(memory.data()), way, scope, team.get(),
                 way == Way::kReduce ? rounds : rounds / 4, pe.seed());
        }
        pe.barrier();
      }
    }
  }
}

}  // namespace

SPMD_TEST(collectives_move_the_data_that_a_sequential_model_predicts) {
  constexpr std::size_t kMost = 3000;
  const std::size_t n = static_cast<std::size_t>(pe.n());
  SymmetricArray<std::uint8_t> source(kMost * n), dest(2 * kMost * n + 1);
  const int rounds = std::max(pe.rounds(40), 4);
  for (const OwnTeam& team : teams_of(pe)) {
    for (const Scope scope : kScopes) {
      for (const Move move : kMoves) {
        if (!pe.draws()) continue;
        const MoveMemory memory{source.data(), dest.data() + (move == Move::kFcollect ? 1 : 0),
                                kMost, n};
        if (team.get() != GSHMEM_TEAM_INVALID)
          pe.run(one_group(pe, scope), MoveRounds{}, memory, move, scope, team.get(), rounds,
                 pe.seed());
        pe.barrier();
      }
    }
  }
}

SPMD_TEST(reductions_return_the_results_that_a_sequential_model_predicts) {
  const int rounds = std::max(pe.rounds(40), 4);
  test_reduce<std::int32_t, ReduceOp::kSum>(pe, rounds);
  test_reduce<std::uint64_t, ReduceOp::kXor>(pe, rounds);
  test_reduce<double, ReduceOp::kProd>(pe, rounds);
  test_reduce<std::int8_t, ReduceOp::kMin>(pe, rounds);
  test_reduce<gshmem_half_t, ReduceOp::kMax>(pe, rounds);
}

SPMD_TEST(reductions_of_pairs_and_complex_numbers_return_the_results_of_a_sequential_model) {
  const int rounds = std::max(pe.rounds(16), 4);
  test_reduce<gshmem_double2_t, ReduceOp::kMaxloc>(pe, rounds);
  test_reduce<gshmem_complexf_t, ReduceOp::kProd>(pe, rounds);
  test_reduce<gshmem_complexd_t, ReduceOp::kSum>(pe, rounds);
}

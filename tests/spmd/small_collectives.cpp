// Collectives of few bytes, thousands of them one directly after the other, by teams that have
// members in common: they use packets if all members map each other.
#include "tests/spmd/late.h"
#include "tests/spmd/teams.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

constexpr int kTeams = 4;
constexpr std::size_t kMost = 24;  ///< the maximum bytes that one member sends to another

/// Makes a reduction in place or not, a fcollect, an alltoall and a broadcast in turn, with sizes
/// that depend on the round. A member that has left a round must find that the others have finished
/// the previous one. Some threads come late.
struct SmallRounds {
  gshmem_team_t teams[kTeams];

  GSHMEM_FN static std::uint8_t byte(int pe, int round, std::size_t i) {
    return pattern(mix(static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(pe)), i);
  }
  /// Returns the size of the source, and of the data that arrives in two rounds.
  GSHMEM_FN static std::size_t room(int n) { return static_cast<std::size_t>(n) * kMost; }

  template <class Group>
  GSHMEM_FN static void make(const LaunchContext& ctx, Log log, Group group, gshmem_team_t team,
                             std::uint8_t* memory, int round) {
    const int n = ctx.team_n_pes(team), me = ctx.team_my_pe(team);
    const std::size_t rank = static_cast<std::size_t>(group.thread_rank());
    const std::size_t width = static_cast<std::size_t>(group.size());
    const std::size_t bytes = mix(7, static_cast<std::uint64_t>(round)) % kMost + 1;
    const std::uint64_t tag = static_cast<std::uint64_t>(round);
    const int what = round % 4;  // 0: reduction, 1: fcollect, 2: alltoall, 3: broadcast
    const auto pe = [&](int i) { return ctx.team_translate_pe(team, i, GSHMEM_TEAM_WORLD); };
    std::uint8_t* const source = memory;
    std::uint8_t* const other = memory + room(n) * static_cast<std::size_t>(1 + round % 2);
    std::uint8_t* const dest = what == 0 && round % 8 == 0 ? source : other;
    if (round % 61 == 1 && is_late(group, tag / 61)) come_late();
    for (std::size_t i = rank; i < bytes * (what == 2 ? static_cast<std::size_t>(n) : 1);
         i += width) {
      source[i] = byte(ctx.my_pe(), round, i);
    }
    if (what == 0) {
      SPMD_EQ(log, ctx.reduce<ReduceOp::kSum>(group, team, dest, source, bytes), 0, tag);
      for (std::size_t i = rank; i < bytes; i += width) {
        std::uint8_t sum = 0;
        for (int k = 0; k < n; ++k) sum = static_cast<std::uint8_t>(sum + byte(pe(k), round, i));
        SPMD_EQ(log, dest[i], sum, tag);
      }
    } else if (what == 3) {
      const int root = round / 4 % n;
      SPMD_EQ(log, ctx.broadcast(group, team, dest, source, bytes, root), 0, tag);
      for (std::size_t i = rank; i < bytes; i += width)
        SPMD_EQ(log, dest[i], byte(pe(root), round, i), tag);
    } else {
      const int status = what == 1 ? ctx.fcollect(group, team, dest, source, bytes)
                                   : ctx.alltoall(group, team, dest, source, bytes);
      SPMD_EQ(log, status, 0, tag);
      for (std::size_t i = rank; i < bytes * static_cast<std::size_t>(n); i += width) {
        const std::size_t first = what == 2 ? static_cast<std::size_t>(me) * bytes : 0;
        SPMD_EQ(log, dest[i], byte(pe(static_cast<int>(i / bytes)), round, first + i % bytes), tag);
      }
    }
    group.sync();  // another thread may check a thread's source
  }
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint8_t* memory,
                            int rounds) const {
    const int at = ctx.block_rank();
    if (teams[at] == GSHMEM_TEAM_INVALID) return;
    std::uint8_t* const own = memory + static_cast<std::size_t>(at) * 3 * room(ctx.n_pes());
    const auto group = ctx.block();
    // Some are ahead of others.
    for (int round = 0; round < rounds * (1 + at) / kTeams; ++round) {
      if (round % 61 == 0) {
        make(ctx, log, dawdling(group, is_late(group, static_cast<std::uint64_t>(round) / 61)),
             teams[at], own, round);
      } else {
        make(ctx, log, group, teams[at], own, round);
      }
    }
  }
};

}  // namespace

SPMD_TEST(ten_thousand_small_collectives_follow_each_other_on_teams_with_members_in_common) {
  SymmetricArray<std::uint8_t> memory(kTeams * 3 * SmallRounds::room(pe.n()));
  const OwnTeam all = split(pe, GSHMEM_TEAM_WORLD, pe.n() - 1, -1, pe.n());
  gshmem_team_t x = 77, y = 77;
  SPMD_EQ(pe, gshmem_team_split_2d(all.get(), 2, nullptr, 0, &x, nullptr, 0, &y), 0);
  const OwnTeam row(x), column(y);
  pe.run({.blocks = kTeams, .threads = shape_of(pe, Scope::kBlock).threads},
         SmallRounds{{x, y, GSHMEM_TEAM_WORLD, all.get()}}, memory.data(),
         pe.rounds(pe.draws() && !pe.on_network() ? 10'000 : 1'000));
}

// Teams: their members are those of a sequential model on every PE, and no member leaves a sync
// before all have entered it, in every scope, whatever other teams do at the same time.
#include "tests/spmd/groups.h"
#include "tests/spmd/teams.h"

#include <algorithm>
#include <climits>
#include <numeric>
#include <thread>
#include <utility>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

void check_members(Pe& pe, int line, gshmem_team_t team, const Pes& expected) {
  const auto mine = std::find(expected.begin(), expected.end(), pe.me());
  if (mine == expected.end()) {
    pe.equal(line, team, static_cast<int>(GSHMEM_TEAM_INVALID));
    return;
  }
  pe.equal(line, gshmem_team_my_pe(team), static_cast<int>(mine - expected.begin()));
  pe.equal(line, gshmem_team_n_pes(team), static_cast<int>(expected.size()));
  pe.equal(line, members(team) == expected, true);
  for (int other = 0; other < pe.n(); ++other) {
    const auto found = std::find(expected.begin(), expected.end(), other);
    const int number = found == expected.end() ? -1 : static_cast<int>(found - expected.begin());
    pe.equal(line, gshmem_team_translate_pe(GSHMEM_TEAM_WORLD, other, team), number);
  }
}

/// Makes the rounds of barrier_all (barrier.cpp) among the members.
struct TeamRounds {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* entered, int rounds,
                            Scope scope, gshmem_team_t team, bool barrier) const {
    with_group(ctx, scope, [&](auto group) {
      const int n = ctx.team_n_pes(team);
      for (int round = 1; round <= rounds; ++round) {
        const std::uint64_t now = static_cast<std::uint64_t>(round);
        if (group.thread_rank() == 0) {
          ctx.atomic_set(entered, now, ctx.my_pe());
          if (!barrier) ctx.quiet();
        }
        const int status = barrier ? ctx.barrier(group, team) : ctx.team_sync(group, team);
        SPMD_EQ(log, status, 0, now);
        for (int i = group.thread_rank(); i < n; i += group.size()) {
          const int pe = ctx.team_translate_pe(team, i, GSHMEM_TEAM_WORLD);
          const std::uint64_t seen = ctx.atomic_fetch(entered, pe);
          if (seen < now || seen > now + 1) SPMD_EQ(log, seen, now, now);
        }
      }
    });
  }
};

void reset(Pe& pe, SymmetricArray<std::uint64_t>& words) {
  pe.barrier();
  for (std::size_t i = 0; i < words.size(); ++i) gshmem_uint64_p(words.data() + i, 0, pe.me());
  gshmem_quiet();
  pe.barrier();
}

/// Every block has a team, and makes its rounds.
constexpr int kTeamsAtATime = 5;
struct TeamsAtATime {
  gshmem_team_t teams[kTeamsAtATime];
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* entered,
                            int rounds) const {
    const int at = ctx.block_rank();
    if (teams[at] == GSHMEM_TEAM_INVALID) return;
    // Some are ahead of others.
    TeamRounds{}(ctx, log, entered + at, rounds * (1 + at) / kTeamsAtATime + 1, Scope::kBlock,
                 teams[at], false);
  }
};

/// A put to every member, a barrier of the team, and loads.
struct CompletingTeamBarrier {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint32_t* data, int rounds,
                            Scope scope, gshmem_team_t team) const {
    constexpr int kWords = 50;
    with_group(ctx, scope, [&](auto group) {
      std::uint32_t* source = data + kWords;
      const int me = ctx.team_my_pe(team), n = ctx.team_n_pes(team);
      for (int round = 1; round <= rounds; ++round) {
        const int to = ctx.team_translate_pe(team, (me + round) % n, GSHMEM_TEAM_WORLD);
        const int from = (me + n - round % n) % n;
        for (int i = group.thread_rank(); i < kWords; i += group.size()) {
          source[i] = value(me, round, i);
        }
        group.sync();
        ctx.put_nbi(group, data, source, kWords, to);
        SPMD_EQ(log, ctx.barrier(group, team), 0);
        for (int i = group.thread_rank(); i < kWords; i += group.size()) {
          SPMD_EQ(log, data[i], value(from, round, i), static_cast<std::uint64_t>(round));
        }
        SPMD_EQ(log, ctx.barrier(group, team), 0);
      }
    });
  }
  GSHMEM_FN static std::uint32_t value(int pe, int round, int i) {
    return static_cast<std::uint32_t>((pe * 1000 + round) * 100 + i);
  }
};

/// For a handle that names no team here, but a predefined one of NVSHMEM.
struct AskForNoTeam {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, gshmem_team_t none) const {
    SPMD_EQ(log, ctx.team_my_pe(none), -1);
    SPMD_EQ(log, ctx.team_n_pes(none), -1);
    SPMD_EQ(log, ctx.team_translate_pe(none, 0, GSHMEM_TEAM_WORLD), -1);
    SPMD_EQ(log, ctx.team_translate_pe(GSHMEM_TEAM_WORLD, 0, none), -1);
  }
};

/// The state of all teams in a sequential program. If this PE is a member, `team` is its handle.
struct Model {
  Pes pes;
  gshmem_team_t team;
};

bool has(const Pes& pes, int pe) { return std::find(pes.begin(), pes.end(), pe) != pes.end(); }

/// Returns every `stride`th of `from`, `size` times.
Pes every(const Pes& from, int start, int stride, int size) {
  Pes chosen;
  for (int i = 0; i < size; ++i) {
    chosen.push_back(from[static_cast<std::size_t>(start + i * stride)]);
  }
  return chosen;
}

struct Triplet {
  int start, stride, size;
};
Triplet random_triplet(Random& random, int n) {
  const auto below = [&](int bound) {
    return static_cast<int>(random.below(static_cast<std::uint64_t>(bound)));
  };
  const int start = below(n);
  int stride = 1 + below(std::max(1, n - 1));
  const bool down = below(2) != 0;
  const int room = (down ? start : n - 1 - start) / stride;
  const int size = 1 + below(room + 1);
  return {start, down ? -stride : stride, size};
}

void split_2d_by_model(Pe& pe, const Model& parent, int xrange, std::vector<Model>& teams) {
  const int n = static_cast<int>(parent.pes.size()), width = std::min(xrange, n);
  gshmem_team_t x = GSHMEM_TEAM_INVALID, y = GSHMEM_TEAM_INVALID;
  if (has(parent.pes, pe.me())) {
    SPMD_EQ(pe, gshmem_team_split_2d(parent.team, xrange, nullptr, 0, &x, nullptr, 0, &y), 0);
  }
  const auto add = [&](Pes pes, gshmem_team_t mine) {
    const bool member = has(pes, pe.me());
    if (member) check_members(pe, __LINE__, mine, pes);
    teams.push_back({std::move(pes), member ? mine : GSHMEM_TEAM_INVALID});
  };
  for (int first = 0; first < n; first += width) {
    add(every(parent.pes, first, 1, std::min(width, n - first)), x);
  }
  for (int column = 0; column < width; ++column) {
    add(every(parent.pes, column, width, (n - column + width - 1) / width), y);
  }
}

/// Each group of four warps makes barriers of a team of its own: its last thread sets a flag, and
/// all of them see those of every member.
struct BarriersByWarpgroup {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* entered,
                            gshmem_team_t first, gshmem_team_t second, int width,
                            int rounds) const {
    const int group = ctx.thread_rank() / width;
    const gshmem_team_t team = group == 0 ? first : second;
    const int next_group = (group + 1) * width;
    const int end = next_group < ctx.block_size() ? next_group : ctx.block_size();
    std::uint64_t* const word = entered + group;
    for (int round = 1; round <= rounds; ++round) {
      const std::uint64_t now = static_cast<std::uint64_t>(round);
      if (ctx.thread_rank() == end - 1) ctx.atomic_set(word, now, ctx.my_pe());
      SPMD_EQ(log, gshmemx_barrier_warpgroup(team), 0, now);
      const int i = ctx.thread_rank() % ctx.team_n_pes(team);
      const int pe = ctx.team_translate_pe(team, i, GSHMEM_TEAM_WORLD);
      const std::uint64_t seen = ctx.atomic_fetch(word, pe);
      if (seen < now || seen > now + 1) SPMD_EQ(log, seen, now, now);
    }
  }
};

}  // namespace

SPMD_TEST(predefined_teams_agree_on_their_members) {
  Pes all(static_cast<std::size_t>(pe.n()));
  std::iota(all.begin(), all.end(), 0);
  check_members(pe, __LINE__, GSHMEM_TEAM_WORLD, all);
  // All members signal all others if these are few, or if flags do not use the network.
  const bool mapped = std::all_of(all.begin(), all.end(),
                                  [&](int other) { return other == pe.me() || pe.maps(other); });
  const bool flat = pe.n() <= (mapped ? abi::kFlatPes : abi::kFlatPesByNetwork);
  SPMD_EQ(pe, gshmemi_ambient()->state->host_teams[GSHMEM_TEAM_WORLD].flat, flat ? 1u : 0u);
  SPMD_EQ(pe, gshmemi_ambient()->state->all_pes & (abi::kAllPesFlat | 1u << GSHMEM_TEAM_WORLD),
          (flat ? abi::kAllPesFlat : 0u) | 1u << GSHMEM_TEAM_WORLD);
  const auto n = static_cast<std::size_t>(pe.n());
  SymmetricArray<int> theirs(n * n);  // n by each PE
  for (const gshmem_team_t team :
       {GSHMEM_TEAM_SHARED, GSHMEMX_TEAM_NODE, GSHMEMX_TEAM_SAME_MYPE_NODE}) {
    const Pes pes = members(team);
    check_members(pe, __LINE__, team, pes);
    SPMD_CHECK(pe, has(pes, pe.me()));
    SPMD_EQ(pe, gshmemi_ambient()->state->all_pes >> team & 1, pes == all ? 1 : 0);
    for (const int member : pes) {
      if (team == GSHMEM_TEAM_SHARED && member != pe.me())
        SPMD_CHECK(pe, gshmem_ptr(theirs.data(), member) != nullptr);
      const int number = gshmem_team_translate_pe(GSHMEM_TEAM_WORLD, member, team);
      SPMD_CHECK(pe,
                 gshmem_team_ptr(team, theirs.data(), number) == gshmem_ptr(theirs.data(), member));
      gshmem_int_put(theirs.data() + static_cast<std::size_t>(pe.me()) * n, pes.data(), pes.size(),
                     member);
      gshmem_quiet();
    }
    pe.barrier();
    // All PEs that have written here have the same members.
    const Pes seen = theirs.to_vector(pe.me());
    for (const int member : pes) {
      const auto part = seen.begin() + member * pe.n();
      SPMD_CHECK(pe, std::equal(pes.begin(), pes.end(), part));
    }
    pe.barrier();
  }
  SPMD_CHECK(pe, gshmem_team_ptr(GSHMEM_TEAM_INVALID, theirs.data(), 0) == nullptr);
  SPMD_CHECK(pe, gshmem_team_ptr(GSHMEM_TEAM_WORLD, theirs.data(), pe.n()) == nullptr);
  SPMD_EQ(pe, gshmem_team_my_pe(GSHMEM_TEAM_INVALID), -1);
  SPMD_EQ(pe, gshmem_team_n_pes(GSHMEM_TEAM_INVALID), -1);
  SPMD_EQ(pe, gshmem_team_translate_pe(GSHMEM_TEAM_INVALID, 0, GSHMEM_TEAM_WORLD), -1);
  SPMD_EQ(pe, gshmem_team_translate_pe(GSHMEM_TEAM_WORLD, 0, GSHMEM_TEAM_INVALID), -1);
  SPMD_EQ(pe, gshmem_team_translate_pe(GSHMEM_TEAM_WORLD, pe.n(), GSHMEM_TEAM_WORLD), -1);
  SPMD_EQ(pe, gshmem_team_translate_pe(GSHMEM_TEAM_WORLD, -1, GSHMEM_TEAM_WORLD), -1);
}

SPMD_TEST(a_team_of_nvshmem_without_an_equivalent_has_no_members_and_queries_are_no_fault) {
  SymmetricArray<int> object(1);
  for (const gshmem_team_t none : {4, 5, 6}) {  // same GPU, leaders of GPUs, multicast
    SPMD_EQ(pe, gshmem_team_my_pe(none), -1);
    SPMD_EQ(pe, gshmem_team_n_pes(none), -1);
    SPMD_EQ(pe, gshmem_team_translate_pe(none, 0, GSHMEM_TEAM_WORLD), -1);
    SPMD_EQ(pe, gshmem_team_translate_pe(GSHMEM_TEAM_WORLD, 0, none), -1);
    SPMD_CHECK(pe, gshmem_team_ptr(none, object.data(), 0) == nullptr);
    gshmem_team_config_t config = GSHMEM_TEAM_CONFIG_INITIALIZER;
    SPMD_CHECK(pe, gshmem_team_get_config(none, GSHMEM_TEAM_NUM_CONTEXTS, &config) != 0);
    pe.run({.blocks = 1, .threads = 1}, AskForNoTeam{}, none);
  }
  SPMD_EQ(pe, gshmemx_last_fault(nullptr), 0);
}

SPMD_TEST(team_sync_holds_every_member_of_every_team_in_every_scope) {
  SymmetricArray<std::uint64_t> entered(1);
  for (const OwnTeam& team : teams_of(pe)) {
    for (const Scope scope : kScopes) {
      for (const bool barrier : {false, true}) {
        if (team.get() != GSHMEM_TEAM_INVALID) {
          pe.run(one_group(pe, scope), TeamRounds{}, entered.data(), pe.rounds(50), scope,
                 team.get(), barrier);
        }
        reset(pe, entered);
      }
    }
  }
}

SPMD_TEST(team_barrier_completes_puts_before_it) {
  SymmetricArray<std::uint32_t> data(100);
  for (const OwnTeam& team : teams_of(pe)) {
    for (const Scope scope : kScopes) {
      if (team.get() != GSHMEM_TEAM_INVALID) {
        pe.run(one_group(pe, scope), CompletingTeamBarrier{}, data.data(), pe.rounds(20), scope,
               team.get());
      }
      pe.barrier();
    }
  }
}

SPMD_TEST(ten_thousand_team_syncs_follow_each_other) {
  SymmetricArray<std::uint64_t> entered(1);
  const OwnTeam all = split(pe, GSHMEM_TEAM_WORLD, 0, 1, pe.n());
  pe.run(one_group(pe, Scope::kWarp), TeamRounds{}, entered.data(), pe.rounds(10'000), Scope::kWarp,
         all.get(), false);
}

SPMD_TEST(teams_with_members_in_common_sync_at_the_same_time) {
  SymmetricArray<std::uint64_t> entered(kTeamsAtATime);
  const OwnTeam all = split(pe, GSHMEM_TEAM_WORLD, pe.n() - 1, -1, pe.n());
  gshmem_team_t x = 77, y = 77;
  SPMD_EQ(pe, gshmem_team_split_2d(all.get(), 2, nullptr, 0, &x, nullptr, 0, &y), 0);
  const OwnTeam row(x), column(y);
  pe.run({.blocks = kTeamsAtATime, .threads = shape_of(pe, Scope::kBlock).threads},
         TeamsAtATime{{GSHMEM_TEAM_WORLD, GSHMEMX_TEAM_NODE, all.get(), x, y}}, entered.data(),
         pe.rounds(400));
}

SPMD_TEST(team_sync_by_host_threads_holds_every_member) {
  SymmetricArray<std::uint64_t> entered(1);
  for (const OwnTeam& team : teams_of(pe)) {
    const Pes pes = members(team.get());
    const int rounds = team.get() == GSHMEM_TEAM_INVALID ? 0 : pe.rounds(100);
    for (int round = 1; round <= rounds; ++round) {
      const auto now = static_cast<std::uint64_t>(round);
      // gshmem-check: ignore, since the next value may come while another PE reads this one
      gshmem_uint64_p(entered.data(), now, pe.me());
      gshmem_quiet();
      SPMD_EQ(pe, round % 2 ? gshmem_barrier(team.get()) : gshmem_sync(team.get()), 0);
      const int other = pes[static_cast<std::size_t>(round) % pes.size()];
      const std::uint64_t seen = gshmem_uint64_g(entered.data(), other);
      SPMD_CHECK(pe, seen == now || seen == now + 1);
    }
    reset(pe, entered);
  }
}

SPMD_TEST(host_threads_of_a_pe_synchronize_distinct_teams_at_the_same_time) {
  std::vector<OwnTeam> teams = teams_of(pe);
  void* const handle = gshmemx_pe_handle();
  std::vector<std::thread> threads;
  for (const OwnTeam& team : teams) {
    // For all PEs a host thread of each synchronizes on the board; the other teams have slots of
    // their own.
    if (team.get() == GSHMEM_TEAM_INVALID || team.get() == GSHMEM_TEAM_WORLD) continue;
    threads.emplace_back([&, handle] {
      SPMD_EQ(pe, gshmemx_bind_thread(handle), 0);
      for (int round = 0; round < pe.rounds(100); ++round) {
        SPMD_EQ(pe, gshmem_team_sync(team.get()), 0);
      }
      // Teams of teams, created at the same time as those of other threads.
      for (int round = 0; round < std::max(pe.rounds(20), 2); ++round) {
        const int n = gshmem_team_n_pes(team.get());
        const OwnTeam part = split(pe, team.get(), n - 1, -1, n);
        SPMD_EQ(pe, gshmem_team_my_pe(part.get()), n - 1 - gshmem_team_my_pe(team.get()));
        SPMD_EQ(pe, gshmem_team_sync(part.get()), 0);
      }
      SPMD_EQ(pe, gshmemx_bind_thread(nullptr), 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

SPMD_TEST(random_splits_have_the_members_that_a_sequential_model_predicts) {
  Random random{pe.seed()};
  SymmetricArray<std::uint64_t> entered(1);
  Pes all(static_cast<std::size_t>(pe.n()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<Model> teams{{all, GSHMEM_TEAM_WORLD}};
  for (int step = 0; step < std::max(pe.rounds(60), 6); ++step) {
    const Model parent = teams[random.below(teams.size())];
    const int n = static_cast<int>(parent.pes.size());
    if (random.below(3) == 0) {
      split_2d_by_model(pe, parent, 1 + static_cast<int>(random.below(5)), teams);
    } else {
      const Triplet t = random_triplet(random, n);
      const Pes pes = every(parent.pes, t.start, t.stride, t.size);
      gshmem_team_t team = GSHMEM_TEAM_INVALID;
      if (has(parent.pes, pe.me())) {
        SPMD_EQ(
            pe,
            gshmem_team_split_strided(parent.team, t.start, t.stride, t.size, nullptr, 0, &team),
            0);
        check_members(pe, __LINE__, team, pes);
      }
      teams.push_back({pes, team});
    }
    while (teams.size() > 12) {
      const std::size_t gone = 1 + random.below(teams.size() - 1);
      gshmem_team_destroy(teams[gone].team);
      teams.erase(teams.begin() + static_cast<std::ptrdiff_t>(gone));
    }
    const Model& one = teams[random.below(teams.size())];
    if (one.team != GSHMEM_TEAM_INVALID) {
      SPMD_EQ(pe, gshmem_team_sync(one.team), 0);
      pe.run(one_group(pe, Scope::kWarp), TeamRounds{}, entered.data(), 3, Scope::kWarp, one.team,
             true);
    }
    reset(pe, entered);
  }
  for (std::size_t i = 1; i < teams.size(); ++i) gshmem_team_destroy(teams[i].team);
}

SPMD_TEST(teams_can_be_made_and_destroyed_a_thousand_times) {
  SymmetricArray<std::uint64_t> entered(1);
  const int n = pe.n(), rounds = pe.rounds(1000);
  for (int round = 0; round < rounds; ++round) {
    // Later teams in the same slot have other members, after syncs of all kinds.
    const int size = 1 + round % n;
    const OwnTeam team = split(pe, GSHMEM_TEAM_WORLD, 0, 1, size);
    SPMD_EQ(pe, team.get() != GSHMEM_TEAM_INVALID, pe.me() < size);
    if (team.get() == GSHMEM_TEAM_INVALID) continue;
    SPMD_EQ(pe, gshmem_team_sync(team.get()), 0);
    if (round % 50 == 0) {
      pe.run(one_group(pe, Scope::kBlock), TeamRounds{}, entered.data(), 3, Scope::kBlock,
             team.get(), false);
      SPMD_EQ(pe, gshmem_team_sync(team.get()), 0);  // all have checked
      gshmem_uint64_p(entered.data(), 0, pe.me());
      gshmem_quiet();
      SPMD_EQ(pe, gshmem_team_sync(team.get()), 0);
    }
  }
}

SPMD_TEST(a_team_too_many_is_an_error_on_all_members) {
  std::vector<OwnTeam> teams;  // the last PE is not a member, and may be in others
  const int size = std::max(pe.n() - 1, 1);
  int status = 0;
  while (status == 0) {
    gshmem_team_t team = 77;
    status = gshmem_team_split_strided(GSHMEM_TEAM_WORLD, 0, 1, size, nullptr, 0, &team);
    SPMD_EQ(pe, team == GSHMEM_TEAM_INVALID, status != 0 || pe.me() >= size);
    if (status == 0) teams.emplace_back(team);
  }
  SPMD_EQ(pe, status, static_cast<int>(GSHMEMX_ERROR_OUT_OF_MEMORY));
  const auto& state = *gshmemi_ambient()->state;
  SPMD_EQ(pe, teams.size() + GSHMEMX_TEAM_SAME_MYPE_NODE + 1, std::size_t{state.n_teams});
  // Two more are too many, and then none is created.
  teams.pop_back();
  gshmem_team_t x = 77, y = 77;
  SPMD_EQ(pe, gshmem_team_split_2d(GSHMEM_TEAM_WORLD, 1, nullptr, 0, &x, nullptr, 0, &y),
          static_cast<int>(GSHMEMX_ERROR_OUT_OF_MEMORY));
  SPMD_CHECK(pe, x == GSHMEM_TEAM_INVALID && y == GSHMEM_TEAM_INVALID);
  teams.pop_back();
  SPMD_EQ(pe, gshmem_team_split_2d(GSHMEM_TEAM_WORLD, 1, nullptr, 0, &x, nullptr, 0, &y), 0);
  teams.emplace_back(x);
  teams.emplace_back(y);
  for (const OwnTeam& team : teams)
    if (team.get() != GSHMEM_TEAM_INVALID) SPMD_EQ(pe, gshmem_team_sync(team.get()), 0);
}

SPMD_TEST(bad_splits_are_errors_on_all_members) {
  const int n = pe.n();
  const auto code = [&](gshmem_team_t parent, int start, int stride, int size, long mask = 0) {
    gshmem_team_t team = 77;
    const int status = gshmem_team_split_strided(parent, start, stride, size, nullptr, mask, &team);
    if (status != 0) SPMD_EQ(pe, team, static_cast<int>(GSHMEM_TEAM_INVALID));
    if (status == 0) gshmem_team_destroy(team);
    return status;
  };
  constexpr int kBad = GSHMEMX_ERROR_INVALID_VALUE;
  SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, -1, 1, 1), kBad);
  SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, n, 1, 1), kBad);
  SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, 0, 1, 0), kBad);
  SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, 0, 1, -1), kBad);
  SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, 0, 1, n + 1), kBad);
  SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, 0, 1, 1, 4), kBad);
  SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, 0, 1, 1, GSHMEM_TEAM_NUM_CONTEXTS), kBad);
  SPMD_EQ(pe, code(GSHMEM_TEAM_INVALID, 0, 1, 1), kBad);
  SPMD_EQ(pe, code(12345, 0, 1, 1), kBad);
  SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, 0, INT_MAX, 1), 0);  // with one member it does not matter
  if (n > 1) {
    SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, 0, 0, 2), kBad);
    SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, 1, 1, n), kBad);
    SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, 0, -1, 2), kBad);
    SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, 0, INT_MAX, 2), kBad);
    constexpr int kDiffers = GSHMEMX_ERROR_SYMMETRY;
    SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, pe.me() == n - 1 ? 1 : 0, 1, 1), kDiffers);
    SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, 0, pe.me() == 0 ? 2 : 1, 1), kDiffers);
    SPMD_EQ(pe, code(GSHMEM_TEAM_WORLD, 0, 1, pe.me() == 0 ? 2 : 1), kDiffers);
  }
  // One of them passes a wrong argument.
  gshmem_team_t team = 77, other = 77;
  SPMD_EQ(pe,
          gshmem_team_split_strided(GSHMEM_TEAM_WORLD, 0, 1, n, nullptr, 0,
                                    pe.me() == n / 2 ? nullptr : &team),
          kBad);
  SPMD_EQ(pe,
          gshmem_team_split_2d(GSHMEM_TEAM_WORLD, 1, nullptr, 0, pe.me() == 0 ? nullptr : &team,
                               nullptr, 0, &other),
          kBad);
  SPMD_EQ(pe, gshmem_team_split_2d(GSHMEM_TEAM_WORLD, 0, nullptr, 0, &team, nullptr, 0, &other),
          kBad);
  SPMD_EQ(pe, gshmem_team_split_2d(GSHMEM_TEAM_WORLD, n + 5, nullptr, 0, &team, nullptr, 0, &other),
          0);
  SPMD_EQ(pe, gshmem_team_n_pes(team), n);
  SPMD_EQ(pe, gshmem_team_n_pes(other), 1);
  gshmem_team_destroy(team);
  gshmem_team_destroy(other);
  gshmem_team_destroy(GSHMEM_TEAM_INVALID);
}

SPMD_TEST(random_pes_in_random_order_make_a_team_by_an_id) {
  Random random{pe.seed()};
  SymmetricArray<std::uint64_t> entered(1);
  Pes all(static_cast<std::size_t>(pe.n()));
  std::iota(all.begin(), all.end(), 0);
  for (int round = 0; round < std::max(pe.rounds(30), 3); ++round) {
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random.below(i)]);
    const auto size = static_cast<std::ptrdiff_t>(1 + random.below(all.size()));
    const Pes pes(all.begin(), all.begin() + size);
    const OwnTeam team = team_of(pe, pes, static_cast<int>(random.below(all.size())));
    check_members(pe, __LINE__, team.get(), pes);
    if (team.get() == GSHMEM_TEAM_INVALID) continue;
    // A part of a team keeps its members after the whole was destroyed.
    const int n = static_cast<int>(pes.size());
    gshmem_team_t part = 77;
    {
      const OwnTeam copy = split(pe, team.get(), 0, 1, n);
      SPMD_EQ(pe, gshmem_team_split_strided(copy.get(), n - 1, -1, n, nullptr, 0, &part), 0);
    }
    const OwnTeam reverse(part);
    check_members(pe, __LINE__, reverse.get(), Pes(pes.rbegin(), pes.rend()));
    SPMD_EQ(pe, gshmem_team_sync(reverse.get()), 0);
    pe.run(one_group(pe, Scope::kWarp), TeamRounds{}, entered.data(), 3, Scope::kWarp, team.get(),
           true);
    SPMD_EQ(pe, gshmem_team_sync(team.get()), 0);
    gshmem_uint64_p(entered.data(), 0, pe.me());
    SPMD_EQ(pe, gshmem_barrier(team.get()), 0);
  }
}

SPMD_TEST(errors_of_a_team_by_an_id_are_errors_on_all_members) {
  const int n = pe.n(), me = pe.me();
  gshmem_team_t team = 77;
  const auto status = [&](int size, int index) {
    const gshmemx_team_uniqueid_t id = share_id(pe, n / 2);
    team = 77;
    const int code = join(team, id, size, index);
    SPMD_EQ(pe, team == GSHMEM_TEAM_INVALID, code != 0);
    // No PE uses this id any more.
    SPMD_CHECK(pe, code == 0 || join(team, id, n, me) != 0);
    pe.barrier();
    return code;
  };
  constexpr int kBad = GSHMEMX_ERROR_INVALID_VALUE;
  SPMD_EQ(pe, status(n + 1, me), kBad);
  SPMD_EQ(pe, status(0, 0), kBad);
  SPMD_EQ(pe, status(n, me == 0 ? -1 : me), kBad);
  SPMD_EQ(pe, status(n, me == n - 1 ? n : me), kBad);
  if (n > 1) SPMD_EQ(pe, status(n, me == 0 ? 1 : me), kBad);
  if (n > 2) SPMD_EQ(pe, status(me == 0 ? n - 1 : n, me), static_cast<int>(GSHMEMX_ERROR_SYMMETRY));
  // The ids belong to nobody, to no PE, and to a PE that has not made it.
  for (const std::uint64_t id : {std::uint64_t{0}, UINT64_MAX, std::uint64_t{1} << 32 | 0x7fffffff})
    SPMD_EQ(pe, join(team, id, 1, 0), kBad);
  // One of them passes a wrong argument: the others are notified.
  const gshmemx_team_uniqueid_t id = share_id(pe, 0);
  gshmem_team_config_t config = GSHMEM_TEAM_CONFIG_INITIALIZER;
  config.uniqueid = id;
  SPMD_EQ(pe,
          gshmemx_team_init(me == n - 1 ? nullptr : &team, &config, GSHMEMX_TEAM_UNIQUEID, n, me),
          kBad);
  SPMD_EQ(pe, gshmemx_team_init(&team, &config, 0, n, me), kBad);
  SPMD_EQ(pe, gshmemx_team_init(&team, nullptr, GSHMEMX_TEAM_UNIQUEID, n, me), kBad);
  SPMD_EQ(pe, gshmemx_team_get_uniqueid(nullptr), kBad);
}

SPMD_TEST(warpgroups_of_a_block_make_barriers_of_a_team_each) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  const OwnTeam turned = split(pe, GSHMEM_TEAM_WORLD, pe.n() - 1, -1, pe.n());
  const unsigned width = 4 * pe.warp();
  for (const unsigned threads : {width, 2 * width, width + width / 4 + 1}) {
    SymmetricArray<std::uint64_t> entered(2);
    pe.run({.blocks = 1, .threads = threads}, BarriersByWarpgroup{}, entered.data(),
           gshmem_team_t{GSHMEM_TEAM_WORLD}, turned.get(), static_cast<int>(width),
           std::max(pe.rounds(100), 4));
    pe.barrier();
  }
}

// A member of a team dies while the others synchronize with it over the network, in a flat team and
// in one that synchronizes in rounds, or while a collective moves data: every other member's call
// ends with an error.
#include "tests/errors/scene.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <regex>
#include <thread>
#include <utility>

using namespace gshmem;
using namespace gshmem::errors;

namespace {

constexpr int kVictim = 1;

/// A call that a member repeats until it fails, with two arrays of kInts ints for each member.
using TeamCall = std::function<int(gshmem_team_t team, int* dest, int* source)>;
constexpr std::size_t kInts = 20'000;

void call_until_it_fails(int rank, const TeamCall& call) {
  {
    const Runtime runtime;
    gshmem_team_t team = GSHMEM_TEAM_INVALID;
    const int n = runtime.n_pes();
    SymmetricArray<int> arrays(2 * kInts * static_cast<std::size_t>(n));
    if (gshmem_team_split_strided(GSHMEM_TEAM_WORLD, n - 1, -1, n, nullptr, 0, &team) != 0)
      throw std::runtime_error("no team");
    if (rank == kVictim) {
      std::thread([] {
        usleep(50'000);
        (void)raise(SIGKILL);
      }).detach();
    }
    int status = 0;
    while (status == 0)
      status = call(team, arrays.data(), arrays.data() + kInts * static_cast<std::size_t>(n));
    std::printf("status %d\n", status);
    spmd::print_fault();
  }
  std::puts("finalized");
}

void kill_a_member(const Leg& leg, int n, const TeamCall& call) {
  const auto outcomes = spmd::in_children(n, environment_of(leg, {{"GSHMEM_SYMMETRIC_SIZE", "4M"}}),
                                          [&](int rank) { call_until_it_fails(rank, call); });
  // The death itself, or the error of the connection to the dead PE or to one that knows of it.
  const std::regex expected("status (12|15)[^]*fault (12|15) [0-9]+ [^]*PE [0-9]+[^]*finalized");
  for (int rank = 0; rank < n; ++rank) {
    const spmd::Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    INFO(leg.name() << ", PE " << rank << " of " << n << ": " << outcome.output);
    CHECK(outcome.code == (rank == kVictim ? 128 + SIGKILL : 0));
    if (rank != kVictim) CHECK(std::regex_search(outcome.output, expected));
  }
}

int sync_team(gshmem_team_t team, int*, int*) { return gshmem_team_sync(team); }
int barrier_of_team(gshmem_team_t team, int*, int*) { return gshmem_barrier(team); }

}  // namespace

TEST_CASE("a_member_that_dies_inside_a_sync_by_the_network_ends_it_on_all_others") {
  for (const Leg& leg : process_legs({"soft", "ofi"})) {
    kill_a_member(leg, 3, sync_team);
    kill_a_member(leg, 3, barrier_of_team);
  }
}

TEST_CASE("no_survivor_of_a_death_can_split_a_team_over_the_network") {
  for (const Leg& leg : process_legs({"soft", "ofi"})) {
    const auto outcomes = spmd::in_children(3, environment_of(leg, {}), [&](int rank) {
      const Runtime runtime;
      gshmem_barrier_all();
      if (rank == kVictim) (void)raise(SIGKILL);
      while (gshmem_team_sync(GSHMEM_TEAM_WORLD) == 0) {
      }
      gshmem_team_t survivors = GSHMEM_TEAM_INVALID;
      const int status =
          gshmem_team_split_strided(GSHMEM_TEAM_WORLD, 0, 2, 2, nullptr, 0, &survivors);
      std::printf("split: %s, %s\n", status == 0 ? "good" : "refused",
                  survivors == GSHMEM_TEAM_INVALID ? "no team" : "a team");
    });
    for (int rank = 0; rank < 3; ++rank) {
      const spmd::Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      INFO(leg.name() << ", PE " << rank << ": " << outcome.output);
      if (rank != kVictim) CHECK(spmd::contains(outcome.output, "split: refused, no team\n"));
    }
  }
}

TEST_CASE("a_member_that_dies_inside_a_sync_in_rounds_ends_it_on_all_others") {
  for (Leg leg : process_legs({"soft"})) {
    kill_a_member(leg, 10, sync_team);
    leg.mapping = Mapping::kPairs;
    kill_a_member(leg, 10, sync_team);
  }
}

TEST_CASE("a_member_that_dies_inside_a_collective_by_the_network_ends_it_on_all_others") {
  const auto sum = [](gshmem_team_t team, int* dest, int* source) {
    return gshmem_int_sum_reduce(team, dest, source, kInts);
  };
  const auto sum_in_place = [](gshmem_team_t team, int*, int* source) {
    return gshmem_int_sum_reduce(team, source, source, 100);
  };
  const auto alltoall = [](gshmem_team_t team, int* dest, int* source) {
    return gshmem_int_alltoall(team, dest, source, kInts);
  };
  const auto broadcast = [](gshmem_team_t team, int* dest, int* source) {
    return gshmem_int_broadcast(team, dest, source, kInts, 0);
  };
  const auto collect = [](gshmem_team_t team, int* dest, int* source) {
    return gshmem_int_collect(team, dest, source, 100);
  };
  const std::pair<const char*, TeamCall> calls[] = {{"soft", sum},
                                                    {"soft", alltoall},
                                                    {"soft", collect},
                                                    {"ofi", sum_in_place},
                                                    {"ofi", broadcast}};
  for (const auto& nic_and_call : calls) {
    for (const Leg& leg : process_legs({nic_and_call.first}))
      kill_a_member(leg, 3, nic_and_call.second);
  }
}

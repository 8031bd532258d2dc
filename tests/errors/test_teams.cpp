// A member of a team dies while the others synchronize with it over the network, in a team where
// all tell all, and in one that takes rounds: every other member's sync ends with an error.
#include "tests/errors/scene.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <regex>
#include <thread>

using namespace gshmem;
using namespace gshmem::errors;

namespace {

constexpr int kVictim = 1;

void sync_until_it_fails(int rank, bool barrier) {
  {
    const Runtime runtime;
    gshmem_team_t team = GSHMEM_TEAM_INVALID;
    const int n = runtime.n_pes();
    if (gshmem_team_split_strided(GSHMEM_TEAM_WORLD, n - 1, -1, n, nullptr, 0, &team) != 0)
      throw std::runtime_error("no team");
    if (rank == kVictim) {
      std::thread([] {
        usleep(50'000);
        (void)raise(SIGKILL);
      }).detach();
    }
    int status = 0;
    while (status == 0) status = barrier ? gshmem_barrier(team) : gshmem_team_sync(team);
    std::printf("status %d\n", status);
    spmd::print_fault();
  }
  std::puts("finalized");
}

void kill_a_member(const Leg& leg, int n, bool barrier) {
  const auto outcomes = spmd::in_children(n, environment_of(leg, {{"GSHMEM_SYMMETRIC_SIZE", "4M"}}),
                                          [&](int rank) { sync_until_it_fails(rank, barrier); });
  // The death itself, or what the connection to the dead or to one that has heard of it says.
  const std::regex expected("status (12|15)[^]*fault (12|15) [0-9]+ [^]*PE [0-9]+[^]*finalized");
  for (int rank = 0; rank < n; ++rank) {
    const spmd::Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    INFO(leg.name() << ", PE " << rank << " of " << n << ": " << outcome.output);
    CHECK(outcome.code == (rank == kVictim ? 128 + SIGKILL : 0));
    if (rank != kVictim) CHECK(std::regex_search(outcome.output, expected));
  }
}

}  // namespace

TEST_CASE("a_member_that_dies_inside_a_sync_by_the_network_ends_it_on_all_others") {
  for (const Leg& leg : process_legs({"soft", "ofi"})) {
    for (const bool barrier : {false, true}) kill_a_member(leg, 3, barrier);
  }
}

TEST_CASE("a_member_that_dies_inside_a_sync_in_rounds_ends_it_on_all_others") {
  for (Leg leg : process_legs({"soft"})) {
    kill_a_member(leg, 10, false);
    leg.mapping = Mapping::kPairs;
    kill_a_member(leg, 10, false);
  }
}

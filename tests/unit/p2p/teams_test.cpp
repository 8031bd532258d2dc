#include <gshmem/device/p2p.h>
#include <gshmem/device/teams.h>

#include <catch2/catch.hpp>

#include <array>

using namespace gshmem;
using namespace gshmem::device;

namespace {

/// PE 7 of 12: the second of three PEs on its host, and third of four with that number.
abi::DeviceState state_of_seven() {
  abi::DeviceState state;
  state.my_pe = 7;
  state.n_pes = 12;
  state.place = {.node_rank = 1, .node_size = 3, .node = 2, .n_nodes = 4};
  state.mapped_first = 6;
  state.mapped_count = 3;
  return state;
}

void check_team(const abi::DeviceState& state, int team, int my_pe, int n_pes) {
  const TeamPlace place = team_place(state, "test", team);
  CHECK(place.my_pe == my_pe);
  CHECK(place.n_pes == n_pes);
}

}  // namespace

TEST_CASE("teams_of_a_pe_among_several_hosts") {
  const abi::DeviceState state = state_of_seven();
  check_team(state, GSHMEM_TEAM_WORLD, 7, 12);
  check_team(state, GSHMEM_TEAM_SHARED, 1, 3);
  check_team(state, GSHMEMX_TEAM_NODE, 1, 3);
  check_team(state, GSHMEMX_TEAM_SAME_MYPE_NODE, 2, 4);
  check_team(state, GSHMEM_TEAM_INVALID, -1, -1);
}

TEST_CASE("shared_team_counts_the_mapped_pes_of_a_table") {
  abi::DeviceState state = state_of_seven();
  std::array<std::int32_t, 12> slots{};
  slots.fill(-1);
  slots[1] = 0;
  slots[4] = 1;
  slots[7] = 3;  // the PE with slot 2 is not reached
  slots[10] = 4;
  state.slots = slots.data();
  state.mapped_first = 1;
  state.mapped_count = 4;
  state.my_slot = 3;
  check_team(state, GSHMEM_TEAM_SHARED, 2, 4);
  check_team(state, GSHMEMX_TEAM_NODE, 1, 3);
}

TEST_CASE("shared_team_without_mapped_peers_is_the_pe") {
  abi::DeviceState state = state_of_seven();
  state.mapped_first = 0;
  state.mapped_count = 0;
  check_team(state, GSHMEM_TEAM_SHARED, 0, 1);
  state.mapped_first = 7;
  state.mapped_count = 1;
  check_team(state, GSHMEM_TEAM_SHARED, 0, 1);
}

TEST_CASE("peers_are_found_in_a_row_and_by_the_table") {
  std::array<char, 8> heap{};
  char* const here = &heap[4];
  abi::DeviceState state = state_of_seven();
  state.stride = 2;
  for (int pe = 0; pe < state.n_pes; ++pe) {
    CHECK(is_mapped(state, pe) == (pe >= 6 && pe < 9));
  }
  CHECK(peer_address(state, here, 6) == here - 2);
  CHECK(peer_address(state, here, 7) == here);
  CHECK(peer_address(state, here, 8) == here + 2);

  std::array<std::int32_t, 12> slots{};
  slots.fill(-1);
  slots[1] = 0;
  slots[7] = 1;
  slots[10] = 2;
  state.slots = slots.data();
  state.mapped_first = abi::kMappedByTable;
  state.mapped_count = 3;
  state.my_slot = 1;
  for (int pe = 0; pe < state.n_pes; ++pe) {
    CHECK(is_mapped(state, pe) == (pe == 1 || pe == 7 || pe == 10));
  }
  CHECK(peer_address(state, here, 1) == here - 2);
  CHECK(peer_address(state, here, 7) == here);
  CHECK(peer_address(state, here, 10) == here + 2);
}

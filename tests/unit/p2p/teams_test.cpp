#include <gshmem/device/pe/p2p.h>
#include <gshmem/device/pe/team.h>

#include <catch2/catch.hpp>

#include <array>
#include <vector>

using namespace gshmem;
using namespace gshmem::device;

namespace {

/// Makes the state of PE 7 of 12: the second of three PEs on its host, and the third of four with
/// that index.
abi::DeviceState state_of_seven() {
  abi::DeviceState state;
  state.my_pe = 7;
  state.n_pes = 12;
  state.mapped_first = 6;
  state.mapped_count = 3;
  return state;
}

}  // namespace

TEST_CASE("members_of_a_team_are_found_by_index_and_by_pe") {
  const std::array<std::int32_t, 6> list{11, 3, 7, 2, 0, 9};
  const abi::Team teams[] = {{nullptr, 0, 1, 12, 0, 0, 1},     {nullptr, 10, -3, 4, 0, 0, 1},
                             {nullptr, 5, 1, 1, 0, 0, 1},      {list.data(), 0, 1, 6, 0, 0, 1},
                             {list.data(), 4, -2, 3, 0, 0, 1}, {list.data(), 1, 2, 3, 0, 0, 1}};
  const std::vector<std::vector<int>> members{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
                                              {10, 7, 4, 1},
                                              {5},
                                              {11, 3, 7, 2, 0, 9},
                                              {0, 7, 11},
                                              {3, 2, 9}};
  for (std::size_t t = 0; t < members.size(); ++t) {
    std::vector<int> numbers(12, -1);
    for (std::size_t i = 0; i < members[t].size(); ++i) {
      CHECK(team_pe(teams[t], static_cast<int>(i)) == members[t][i]);
      numbers[static_cast<std::size_t>(members[t][i])] = static_cast<int>(i);
    }
    for (int pe = 0; pe < 12; ++pe)
      CHECK(team_number(teams[t], pe) == numbers[static_cast<std::size_t>(pe)]);
  }
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

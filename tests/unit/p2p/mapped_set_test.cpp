#include "transport/p2p/mapped_set.h"

#include "host/control/host_group.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace gshmem::p2p;

namespace {

using Slots = std::vector<std::int32_t>;
using Rows = std::vector<std::vector<char>>;

MappedSet of(const std::vector<std::string>& hosts, int me, const std::vector<bool>& mapped) {
  return mapped_set(gshmem::control::group_hosts(hosts, me).pes, mapped, me,
                    static_cast<int>(hosts.size()));
}

}  // namespace

TEST_CASE("consecutive_pes_need_no_table") {
  const MappedSet set = of({"a", "a", "b", "b", "b"}, 3, {true, true, true});
  CHECK(set.first == 2);
  CHECK(set.count == 3);
  CHECK(set.slots.empty());
}

TEST_CASE("a_part_of_a_host_that_is_consecutive_needs_no_table") {
  const MappedSet set = of({"a", "a", "a", "a"}, 3, {false, false, true, true});
  CHECK(set.first == 2);
  CHECK(set.count == 2);
  CHECK(set.slots.empty());
}

TEST_CASE("pes_dealt_out_have_a_table_of_slots") {
  const MappedSet set = of({"a", "b", "a", "b", "a"}, 2, {true, true, true});
  CHECK(set.count == 3);
  CHECK(set.my_slot == 1);
  CHECK(set.slots == Slots{0, -1, 1, -1, 2});
}

TEST_CASE("a_hole_in_a_host_keeps_the_slots_of_the_others") {
  const MappedSet set = of({"a", "a", "a", "a"}, 2, {true, false, true, true});
  CHECK(set.first == 0);
  CHECK(set.count == 3);
  CHECK(set.my_slot == 2);
  CHECK(set.slots == Slots{0, -1, 2, 3});
}

TEST_CASE("nobody_mapped_is_an_empty_range") {
  const MappedSet set = of({"a", "a"}, 1, {false, false});
  CHECK(set.count == 0);
  CHECK(set.slots.empty());
}

TEST_CASE("pes_that_were_in_a_list_before_are_not_mapped") {
  std::vector<int> pes{0, 2, 3};
  std::vector<bool> mapped{true, true, true};
  pes.pop_back();  // the memory is still there
  mapped.pop_back();
  const MappedSet set = mapped_set(pes, mapped, 3, 4);
  CHECK(set.count == 2);
  CHECK(set.slots == std::vector<std::int32_t>{0, -1, 1, -1});
}

TEST_CASE("only_oneself_mapped_is_a_range_of_one") {
  const MappedSet set = of({"a", "a", "a"}, 1, {false, true, false});
  CHECK(set.first == 1);
  CHECK(set.count == 1);
  CHECK(set.slots.empty());
}

TEST_CASE("all_that_reach_each_other_are_one_set") {
  CHECK(sets_that_reach_each_other(Rows(4, std::vector<char>(4, 1))) == std::vector<int>(4, 0));
}

TEST_CASE("two_islands_are_two_sets") {
  const Rows reach{{1, 0, 1, 0}, {0, 1, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}};
  CHECK(sets_that_reach_each_other(reach) == std::vector<int>{0, 1, 0, 1});
}

TEST_CASE("one_direction_is_not_enough") {
  CHECK(sets_that_reach_each_other({{1, 1}, {0, 1}}) == std::vector<int>{0, 1});
}

TEST_CASE("a_chain_is_cut_so_that_every_set_is_complete") {
  const Rows reach{{1, 1, 0}, {1, 1, 1}, {0, 1, 1}};
  CHECK(sets_that_reach_each_other(reach) == std::vector<int>{0, 0, 1});
}

TEST_CASE("groups_that_reach_each_other_are_one_set") {
  CHECK(sets_of_groups(Rows(4, std::vector<char>(4, 1)), {0, 0, 1, 1}) == std::vector<int>(4, 0));
  // The numbers of a group's PEs need not be consecutive.
  CHECK(sets_of_groups(Rows(4, std::vector<char>(4, 1)), {0, 1, 0, 1}) == std::vector<int>(4, 0));
}

TEST_CASE("what_fails_between_groups_takes_no_path_away_inside_of_one") {
  Rows reach(4, std::vector<char>(4, 1));
  reach[1][2] = 0;
  // Greedily, PE 2 would be alone.
  CHECK(sets_that_reach_each_other(reach) == std::vector<int>{0, 0, 1, 0});
  CHECK(sets_of_groups(reach, {0, 0, 1, 1}) == std::vector<int>{0, 0, 1, 1});
}

TEST_CASE("one_pair_of_two_groups_that_fails_one_way_keeps_them_apart") {
  for (std::size_t from = 0; from < 4; ++from) {
    for (std::size_t to = 0; to < 4; ++to) {
      if (from / 2 == to / 2) continue;
      Rows reach(4, std::vector<char>(4, 1));
      reach[from][to] = 0;
      INFO(from << " does not reach " << to);
      CHECK(sets_of_groups(reach, {0, 0, 1, 1}) == std::vector<int>{0, 0, 1, 1});
    }
  }
}

TEST_CASE("inside_of_a_group_each_pair_counts_both_ways") {
  for (std::size_t from = 0; from < 3; ++from) {
    for (std::size_t to = 0; to < 3; ++to) {
      if (from == to) continue;
      Rows reach(3, std::vector<char>(3, 1));
      reach[from][to] = 0;
      INFO(from << " does not reach " << to);
      // The later one of the two is alone.
      std::vector<int> expected(3, 0);
      expected[std::max(from, to)] = 1;
      CHECK(sets_of_groups(reach, {5, 5, 5}) == expected);
    }
  }
}

TEST_CASE("a_third_group_joins_those_that_it_reaches") {
  Rows reach(3, std::vector<char>(3, 1));
  reach[0][1] = reach[1][0] = 0;
  CHECK(sets_of_groups(reach, {0, 1, 2}) == std::vector<int>{0, 1, 0});
}

TEST_CASE("sets_inside_a_group_stay_apart") {
  Rows reach(4, std::vector<char>(4, 1));
  reach[0][1] = 0;
  CHECK(sets_of_groups(reach, {0, 0, 1, 1}) == std::vector<int>{0, 1, 0, 0});
}

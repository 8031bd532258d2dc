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

TEST_CASE("a_part_of_a_host_that_is_consecutive_needs_no_table") {
  const MappedSet set = of({"a", "a", "a", "a"}, 3, {false, false, true, true});
  CHECK(set.first == 2);
  CHECK(set.count == 2);
  CHECK(set.slots.empty());
}

TEST_CASE("a_hole_in_a_host_keeps_the_slots_of_the_others") {
  const MappedSet set = of({"a", "a", "a", "a"}, 2, {true, false, true, true});
  CHECK(set.first == 0);
  CHECK(set.count == 3);
  CHECK(set.my_slot == 2);
  CHECK(set.slots == Slots{0, -1, 2, 3});
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

#include "transport/p2p/host_group.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace gshmem::p2p;

namespace {

using Hosts = std::vector<std::string>;
using Pes = std::vector<int>;

void check_place(const HostGroup& group, int node_rank, int node_size, int node, int n_nodes) {
  const auto mine = std::find(group.same_index.begin(), group.same_index.end(), group.me());
  CHECK(group.index == node_rank);
  CHECK(group.size() == node_size);
  CHECK(mine - group.same_index.begin() == node);
  CHECK(group.same_index.size() == static_cast<std::size_t>(n_nodes));
}

}  // namespace

TEST_CASE("one_pe_is_a_host") {
  const HostGroup group = group_hosts({"a"}, 0);
  CHECK(group.pes == Pes{0});
  CHECK(group.me() == 0);
  CHECK(group.n_nodes() == 1);
  CHECK(group.leaders == Pes{0});
  CHECK(group.same_index == Pes{0});
  check_place(group, 0, 1, 0, 1);
}

TEST_CASE("block_placement_fills_host_after_host") {
  const Hosts hosts{"a", "a", "a", "b", "b", "b"};
  for (int me = 0; me < 6; ++me) {
    const HostGroup group = group_hosts(hosts, me);
    CHECK(group.pes == (me < 3 ? Pes{0, 1, 2} : Pes{3, 4, 5}));
    CHECK(group.node == me / 3);
    CHECK(group.me() == me);
    CHECK(group.leaders == Pes{0, 3});
    CHECK(group.hosts == Hosts{"a", "b"});
    CHECK(group.same_index == Pes{me % 3, me % 3 + 3});
    CHECK(group.host_of(5) == "b");
    check_place(group, me % 3, 3, me / 3, 2);
  }
}

TEST_CASE("cyclic_placement_deals_pes_out") {
  const Hosts hosts{"a", "b", "c", "a", "b", "c", "a"};
  const HostGroup group = group_hosts(hosts, 4);
  CHECK(group.pes == Pes{1, 4});
  CHECK(group.index == 1);
  CHECK(group.leaders == Pes{0, 1, 2});
  CHECK(group.same_index == Pes{3, 4, 5});
  check_place(group, 1, 2, 1, 3);
  check_place(group_hosts(hosts, 6), 2, 3, 0, 1);  // the only third PE of a host
}

TEST_CASE("irregular_placement_counts_only_hosts_that_have_the_index") {
  // Host b has one PE, so the second PEs of hosts a and c are neighbours in their team.
  const Hosts hosts{"a", "b", "c", "c", "a", "c"};
  const HostGroup group = group_hosts(hosts, 3);
  CHECK(group.pes == Pes{2, 3, 5});
  CHECK(group.node == 2);
  CHECK(group.same_index == Pes{4, 3});
  check_place(group, 1, 3, 1, 2);
  check_place(group_hosts(hosts, 1), 0, 1, 1, 3);
}

TEST_CASE("every_pe_computes_the_same_hosts") {
  const Hosts hosts{"x", "y", "x", "z", "y", "x"};
  const HostGroup first = group_hosts(hosts, 0);
  for (int me = 1; me < 6; ++me) {
    const HostGroup group = group_hosts(hosts, me);
    CHECK(group.node_of == first.node_of);
    CHECK(group.leaders == first.leaders);
    CHECK(group.hosts == first.hosts);
  }
}

TEST_CASE("local_groups_are_hosts_or_parts_of_them") {
  const Hosts hosts{"x", "y", "x", "z", "y", "x"};
  for (int me = 0; me < 6; ++me) {
    const HostGroup group = group_hosts(hosts, me);
    CHECK(local_groups(group, 0) == Pes{0, 1, 0, 2, 1, 0});
    CHECK(local_groups(group, 2) == Pes{0, 1, 0, 2, 1, 3});
    CHECK(local_groups(group, 1) == Pes{0, 1, 2, 3, 4, 5});
  }
}

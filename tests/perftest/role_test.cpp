#include "perftest/common/bench.h"

#include <catch2/catch.hpp>

using namespace perftest;

namespace {

using Roles = std::vector<std::pair<int, int>>;

Roles roles(const Options& options, int n_pes) {
  Roles all;
  for (int pe = 0; pe < n_pes; ++pe) {
    const Role role = role_of(options, pe, n_pes);
    all.emplace_back(role.target, role.source);
  }
  return all;
}

}  // namespace

TEST_CASE("pairs send from the first half to the second") {
  CHECK(roles({.pattern = "pair"}, 4) == Roles{{2, -1}, {3, -1}, {-1, 0}, {-1, 1}});
  CHECK(roles({.pattern = "pair"}, 2) == Roles{{1, -1}, {-1, 0}});
}

TEST_CASE("an odd PE is left out of the pairs") {
  CHECK(roles({.pattern = "pair"}, 3) == Roles{{1, -1}, {-1, 0}, {-1, -1}});
}

TEST_CASE("pairs send both ways with bidir") {
  CHECK(roles({.pattern = "pair", .bidir = true}, 2) == Roles{{1, 1}, {0, 0}});
}

TEST_CASE("in a ring everybody sends to the next one") {
  CHECK(roles({.pattern = "ring"}, 3) == Roles{{1, 2}, {2, 0}, {0, 1}});
}

TEST_CASE("a single PE sends to itself") { CHECK(roles({.pattern = "pair"}, 1) == Roles{{0, 0}}); }

// Heaps in host memory fit into the machine's memory and into the cgroup's.
#include "host/base/memory_limit.h"

#include <catch2/catch.hpp>

#include <string>

using namespace gshmem;

TEST_CASE("memory_is_bounded_by_the_less_of_the_machine_and_the_cgroup") {
  const auto is = [](const MemoryBound& bound, std::uint64_t bytes, const std::string& name) {
    CHECK(bound.bytes == bytes);
    CHECK(bound.name == name);
  };
  is(memory_bound(1000, std::nullopt), 1000, "host's memory");
  is(memory_bound(1000, 999), 999, "cgroup's memory.max");
  is(memory_bound(1000, 1), 1, "cgroup's memory.max");
  is(memory_bound(1000, 1000), 1000, "host's memory");
  is(memory_bound(1000, 5000), 1000, "host's memory");
}

TEST_CASE("heaps_have_room_where_those_of_all_pes_of_the_host_have") {
  const MemoryBound bound = memory_bound(1000, 999);
  CHECK(bound.has_room(999, 1));
  CHECK_FALSE(bound.has_room(1000, 1));
  CHECK(bound.has_room(333, 3));
  CHECK_FALSE(bound.has_room(334, 3));
  // Their sum is no number of 64 bits.
  CHECK_FALSE(bound.has_room(std::uint64_t{1} << 63, 4));
}

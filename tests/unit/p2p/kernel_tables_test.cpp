// Tests the tables of teams and contexts as kernels read them: in memory that the host writes by
// uploads. Here that is plain memory, which the owner of the tables must not store to directly.
#include <gshmem/device/collective/grid.h>

#include "host/base/error.h"
#include "host/runtime/context_table.h"
#include "host/runtime/teams.h"
#include "tests/unit/p2p/kernel_memory.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string>
#include <vector>

using namespace gshmem;
using gshmem::test::KernelMemory;

namespace {

/// Stores a word to a heap, which has no alignment here.
void store(void* word, std::uint64_t value) { std::memcpy(word, &value, sizeof(value)); }
std::uint64_t load(const void* word) {
  std::uint64_t value = 0;
  std::memcpy(&value, word, sizeof(value));
  return value;
}

/// The teams of PE 2 of 4, which maps itself alone, or of one that maps all of `mapped` PEs.
class TeamsRig {
 public:
  explicit TeamsRig(int teams, const Teams::Limits& limits = {},
                    std::vector<std::int32_t> domains = {}, std::int32_t mapped = 0)
      : heap_(kHeapBytes + Teams::bytes_at_end(teams), kPrograms),
        state_(state_of(heap_.data(), &control_, mapped)),
        teams_(teams, limits, kPredefined, std::move(domains), memory(), state_) {}

  /// Makes a team of this PE and the members `pes`.
  gshmem_team_t join(const std::vector<std::int32_t>& pes) {
    const auto me = std::find(pes.begin(), pes.end(), 2) - pes.begin();
    return teams_.join("join", static_cast<int>(me), {}, [&](const auto& words) {
      if (words.size() > abi::kAgreeWords) FAIL("more words than members tell");
      return Teams::Exchanged{pes, words};
    });
  }
  /// Makes a team of this PE and PE 3, whose words are those of this PE unless `other` changes
  /// them. `other` is called once per exchange, with its number from 1.
  template <class Other>
  gshmem_team_t join_with(const Other& other) {
    int exchange = 0;
    return teams_.join("join", 0, {}, [&](std::vector<std::uint32_t> words) {
      other(++exchange, words);
      return Teams::Exchanged{{2, 3}, words};
    });
  }
  void destroy(gshmem_team_t team) {
    teams_.destroy("destroy", teams_.require("destroy", "team", team));
  }
  gshmem_team_t split(gshmem_team_t team, const Teams::Part& part, std::size_t times = 1) {
    return teams_.split("split", teams_.require("split", "team", team), std::vector(times, part))
        .back();
  }
  /// Returns an entry as kernels see it.
  [[nodiscard]] const abi::Team& entry(gshmem_team_t team) const {
    return state_.teams[index_of(team)];
  }
  [[nodiscard]] std::vector<int> members(gshmem_team_t team) const {
    const abi::Team& read = entry(team);
    std::vector<int> pes;
    for (int i = 0; i < read.n_pes; ++i) {
      const int at = read.start + i * read.stride;
      if (read.members) REQUIRE(kernels_.holds(read.members + at, sizeof(*read.members)));
      pes.push_back(read.members ? read.members[at] : at);
    }
    return pes;
  }
  /// The programs' part of the heap is unchanged.
  [[nodiscard]] bool leaves_programs_alone() const {
    return std::all_of(heap_.begin() + abi::kInternalBytes, heap_.begin() + kHeapBytes,
                       [](char byte) { return byte == kPrograms; });
  }
  /// Returns the slot of a team in the library's part of the heap, with its packets.
  [[nodiscard]] std::uint64_t* slot(gshmem_team_t team) {
    return reinterpret_cast<std::uint64_t*>(state_.team_slots + index_of(team));
  }
  [[nodiscard]] std::uint64_t* packets(gshmem_team_t team) {
    constexpr std::size_t kOfOne = 2 * abi::kPackets * abi::kPacketBytes;
    return reinterpret_cast<std::uint64_t*>(heap_.data() + kHeapBytes + index_of(team) * kOfOne);
  }
  [[nodiscard]] std::uint64_t* grid_slot(gshmem_team_t team) {
    return reinterpret_cast<std::uint64_t*>(device::grid_slots(state_) + index_of(team));
  }
  [[nodiscard]] const KernelMemory& kernels() const { return kernels_; }
  void fill() { kernels_.fill(); }
  [[nodiscard]] const abi::DeviceState& state() const { return state_; }

 private:
  inline static const Teams::Predefined kPredefined{{2}, {1, 2}, {0, 2, 3}};
  static constexpr std::size_t kHeapBytes = abi::kInternalBytes + 4096;
  static constexpr char kPrograms = 0x5a;

  static abi::DeviceState state_of(char* heap, abi::Control* control, std::int32_t mapped) {
    abi::DeviceState state;
    state.control = control;
    state.my_pe = 2;
    state.mapped_first = mapped == 0 ? 2 : 0;
    state.mapped_count = mapped == 0 ? 1 : mapped;
    state.n_pes = mapped == 0 ? 4 : mapped;
    state.heap = heap;
    state.heap_bytes = kHeapBytes;
    return state;
  }
  static std::size_t index_of(gshmem_team_t team) {
    return static_cast<std::size_t>(team) & ((1u << abi::kTeamIndexBits) - 1);
  }
  Teams::Memory memory() { return {kernels_.functions(), nullptr, nullptr}; }

  KernelMemory kernels_;
  std::vector<char> heap_;
  abi::Control control_{};
  abi::DeviceState state_;
  Teams teams_;
};

}  // namespace

TEST_CASE("kernels_find_the_members_of_predefined_teams") {
  const TeamsRig rig(2);
  CHECK(rig.kernels().holds(rig.state().teams, rig.state().n_teams * sizeof(abi::Team)));
  CHECK(rig.members(GSHMEM_TEAM_WORLD) == std::vector<int>{0, 1, 2, 3});
  CHECK(rig.members(GSHMEM_TEAM_SHARED) == std::vector<int>{2});
  CHECK(rig.members(GSHMEMX_TEAM_NODE) == std::vector<int>{1, 2});
  CHECK(rig.members(GSHMEMX_TEAM_SAME_MYPE_NODE) == std::vector<int>{0, 2, 3});
  CHECK(rig.entry(GSHMEMX_TEAM_SAME_MYPE_NODE).my_pe == 1);
  CHECK(rig.entry(GSHMEM_TEAM_WORLD).handle == GSHMEM_TEAM_WORLD);
}

TEST_CASE("only_the_slot_of_a_destroyed_team_is_cleared_for_the_next_one") {
  TeamsRig rig(2);
  gshmem_team_t first = rig.join({2});
  const gshmem_team_t second = rig.join({2});
  const auto words = [&](gshmem_team_t team) {
    return std::array{rig.slot(team), rig.packets(team), rig.grid_slot(team)};
  };
  for (const gshmem_team_t team : {first, second})
    for (std::uint64_t* word : words(team)) store(word, 7);
  rig.destroy(first);
  first = rig.join({2});
  for (const std::uint64_t* word : words(first)) CHECK(load(word) == 0);
  for (const std::uint64_t* word : words(second)) CHECK(load(word) == 7);
}

TEST_CASE("members_in_equal_domains_that_are_consecutive_or_alternate_are_in_two_levels") {
  using Domains = std::vector<std::int32_t>;
  const auto levels = [](const Domains& domains) {
    const TeamLevels found = levels_of(domains);
    return std::vector<int>{found.inner, found.stride};
  };
  const std::vector<int> none{0, 0};
  // Members of a domain are consecutive; the domains are in any order.
  CHECK(levels({0, 0, 2, 2}) == std::vector<int>{2, 1});
  CHECK(levels({5, 5, 5, 1, 1, 1}) == std::vector<int>{3, 1});
  CHECK(levels({4, 4, 0, 0, 2, 2}) == std::vector<int>{2, 1});
  // Domains alternate, always in the same order.
  CHECK(levels({0, 2, 0, 2}) == std::vector<int>{2, 2});
  CHECK(levels({0, 3, 0, 3, 0, 3}) == std::vector<int>{3, 2});
  CHECK(levels({4, 0, 2, 4, 0, 2}) == std::vector<int>{2, 3});
  // These have no levels: another order of members, domains of different sizes, one domain, or a
  // domain per member.
  CHECK(levels({0, 2, 2, 0}) == none);
  CHECK(levels({0, 0, 0, 2, 0, 2}) == none);
  CHECK(levels({0, 0, 3, 0, 3, 3}) == none);
  CHECK(levels({0, 2, 4, 0, 4, 2}) == none);
  CHECK(levels({0, 0, 2, 4, 4, 2}) == none);
  CHECK(levels({0, 0, 2, 2, 0, 0, 2, 2}) == none);
  CHECK(levels({0, 0, 1, 1, 1, 1}) == none);
  CHECK(levels({0, 0, 1, 2}) == none);
  CHECK(levels({0, 1, 0, 2}) == none);
  CHECK(levels({0, 0, 1, 1, 1}) == none);
  CHECK(levels({0, 0, 0}) == none);
  CHECK(levels({0, 1, 2, 3}) == none);
  CHECK(levels({0}) == none);
  CHECK(levels({}) == none);
}

TEST_CASE("a_team_keeps_its_members_while_others_come_and_go") {
  TeamsRig rig(3);
  const gshmem_team_t parent = rig.join({2});
  const gshmem_team_t part = rig.split(parent, {0, 1, 1, {}});
  const gshmem_team_t far = rig.join({3, 2, 0});
  CHECK(rig.entry(parent).handle == static_cast<std::uint32_t>(parent));
  rig.destroy(parent);
  CHECK(rig.entry(parent).handle != static_cast<std::uint32_t>(parent));
  const gshmem_team_t next = rig.join({1, 2, 3, 0});
  CHECK(rig.members(part) == std::vector<int>{2});
  CHECK(rig.members(far) == std::vector<int>{3, 2, 0});
  CHECK(rig.entry(far).my_pe == 1);
  CHECK(rig.entry(far).flat == 1);
  CHECK(rig.members(next) == std::vector<int>{1, 2, 3, 0});
  CHECK(rig.members(GSHMEMX_TEAM_NODE) == std::vector<int>{1, 2});
}

TEST_CASE("an_entry_that_not_all_members_could_use_stays_reserved") {
  SECTION("another member could not: it is free again, and asked for again") {
    TeamsRig rig(1);
    int exchanges = 0;
    rig.join_with([&](int exchange, auto& words) {
      exchanges = exchange;
      if (exchange == 2) words[0] = 0;
    });
    CHECK(exchanges == 4);
  }
  SECTION("this one could not: the thread that was quicker keeps it") {
    TeamsRig rig(2);
    gshmem_team_t quicker = GSHMEM_TEAM_INVALID;
    const gshmem_team_t slower = rig.join_with([&](int exchange, const auto& words) {
      if (exchange == 1) quicker = rig.join({2});
      if (exchange == 2) CHECK(words[0] == 0);
    });
    CHECK(rig.members(quicker) == std::vector<int>{2});
    CHECK(rig.members(slower) == std::vector<int>{2, 3});
    CHECK_THROWS_AS(rig.join({2}), Error);
  }
  SECTION("the next of a split finds none: all of it are free again") {
    TeamsRig rig(3);
    const gshmem_team_t parent = rig.join({2});
    CHECK_THROWS_AS(rig.split(parent, {0, 1, 1, {}}, 3), Error);
    CHECK(rig.members(rig.split(parent, {0, 1, 1, {}}, 2)) == std::vector<int>{2});
    CHECK_THROWS_AS(rig.join({2}), Error);
  }
  SECTION("no member has it: it is free again") {
    TeamsRig rig(1);
    for (const int lost : {1, 2}) {
      CHECK_THROWS_WITH(rig.join_with([&](int exchange, const auto&) {
        if (exchange == lost) throw Error(GSHMEMX_ERROR_PEER_FAILED, "PE 3 is gone");
      }),
                        "PE 3 is gone");
    }
    CHECK(rig.members(rig.join({2, 3})) == std::vector<int>{2, 3});
  }
}

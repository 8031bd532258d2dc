// Tests the agent alone: which words it forwards to which doorbells, and its cost while there is
// nothing to forward.
#include "transport/nic/agent.h"

#include "tests/threads_of_process.h"

#include <catch2/catch.hpp>

#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gshmem::nic {
namespace {

constexpr std::uint64_t kNever = 77;  // a value that no doorbell here is rung with

/// Words as device code has them, and doorbells.
struct Bells {
  std::array<AgentWord, 4> words{};
  std::array<std::uint64_t, 4> doorbells{kNever, kNever, kNever, kNever};
  [[nodiscard]] Agent::Route route(std::size_t i) { return {&words[i].value, &doorbells[i]}; }
  void ring(std::size_t i, std::uint64_t value) {
    __atomic_store_n(&words[i].value, value, __ATOMIC_RELEASE);
  }
  [[nodiscard]] std::uint64_t rung(std::size_t i) {
    return __atomic_load_n(&doorbells[i], __ATOMIC_ACQUIRE);
  }
  /// Is the doorbell rung with `value` before a time limit?
  [[nodiscard]] bool comes(std::size_t i, std::uint64_t value) {
    for (int ms = 0; ms < 20000 && rung(i) != value; ++ms) ::usleep(1000);
    return rung(i) == value;
  }
};

TEST_CASE("the_agent_forwards_each_word_to_its_doorbell_once") {
  Bells bells;
  Agent agent({bells.route(0), bells.route(1)});
  bells.ring(0, 5);
  REQUIRE(bells.comes(0, 5));
  CHECK(bells.rung(1) == kNever);  // 0 is no doorbell
  bells.ring(1, 6);
  REQUIRE(bells.comes(1, 6));
  CHECK(bells.rung(0) == 5);
  // A smaller number is newer as well: positions wrap around.
  bells.ring(0, 3);
  REQUIRE(bells.comes(0, 3));
  agent.add({bells.route(2)});
  bells.ring(2, 9);
  REQUIRE(bells.comes(2, 9));
  // The agent sleeps by then.
  ::usleep(5000);
  for (std::uint64_t value = 10; value < 13; ++value) {
    bells.ring(1, value);
    REQUIRE(bells.comes(1, value));
  }
  // A word that was forwarded is not forwarded again.
  __atomic_store_n(&bells.doorbells[1], kNever, __ATOMIC_RELEASE);
  bells.ring(0, 4);
  REQUIRE(bells.comes(0, 4));
  CHECK(bells.rung(1) == kNever);
  // Nor is it when others are added.
  __atomic_store_n(&bells.doorbells[2], kNever, __ATOMIC_RELEASE);
  agent.add({bells.route(3)});
  bells.ring(3, 20);
  REQUIRE(bells.comes(3, 20));
  bells.ring(3, 21);
  REQUIRE(bells.comes(3, 21));
  CHECK(bells.rung(2) == kNever);
}

TEST_CASE("the_agent_forwards_earlier_words_before_it_ends") {
  for (std::uint64_t value = 1; value <= 200; ++value) {
    Bells bells;
    std::optional<Agent> agent(std::in_place, std::vector{bells.route(0)});
    if (value % 2 == 0) ::usleep(300);
    bells.ring(0, value);
    agent.reset();
    REQUIRE(bells.rung(0) == value);
  }
}

}  // namespace
}  // namespace gshmem::nic

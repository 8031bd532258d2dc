#include "perftest/common/floor.h"

#include <catch2/catch.hpp>

#include <limits>

using namespace perftest;

namespace {

bool possible(const Claim& claim) { return !below_floor(claim).has_value(); }

}  // namespace

TEST_CASE("a queue entry takes a round trip to its consumer") {
  CHECK(possible({.path = Path::kNetwork, .trip = Trip::kRound, .us = 1, .bytes = 8}));
  CHECK_FALSE(possible({.path = Path::kNetwork, .trip = Trip::kRound, .us = 0.02, .bytes = 8}));
  CHECK_FALSE(possible({.path = Path::kNetwork, .us = 1, .bytes = 1 << 20}));
}

TEST_CASE("a round trip between GPUs takes at least 0.7 us") {
  CHECK(possible({.path = Path::kPeerGpu, .trip = Trip::kRound, .us = 0.8}));
  CHECK_FALSE(possible({.path = Path::kPeerGpu, .trip = Trip::kRound, .us = 0.18}));
}

TEST_CASE("a barrier between GPUs takes at least one trip over the wire") {
  CHECK(possible({.path = Path::kPeerGpu, .trip = Trip::kOneWay, .us = 0.76}));
  CHECK_FALSE(possible({.path = Path::kPeerGpu, .trip = Trip::kOneWay, .us = 0.06}));
}

TEST_CASE("a latency that does not grow with the size is impossible") {
  CHECK(possible({.path = Path::kPeerGpu, .trip = Trip::kRound, .us = 1, .bytes = 1 << 10}));
  CHECK_FALSE(possible({.path = Path::kPeerGpu, .trip = Trip::kRound, .us = 1, .bytes = 1 << 20}));
}

TEST_CASE("a bandwidth above NVLink's is impossible between GPUs") {
  const double us = 64e6 / 362e3;
  CHECK(possible({.path = Path::kPeerGpu, .us = us, .bytes = 64000000}));
  CHECK_FALSE(possible({.path = Path::kPeerGpu, .us = us, .bytes = 128000000}));
}

TEST_CASE("one GPU may be faster than a link between two, but not without a limit") {
  const Claim claim{.path = Path::kSameGpu, .trip = Trip::kRound, .us = 0.3};
  CHECK(possible(claim));
  CHECK_FALSE(possible({.path = Path::kSameGpu, .trip = Trip::kRound, .us = 0.01}));
  CHECK_FALSE(possible({.path = Path::kSameGpu, .us = 1, .bytes = std::size_t{1} << 30}));
}

TEST_CASE("bandwidth in CPU mode is limited per thread") {
  const Claim one{.path = Path::kHost, .us = 1, .bytes = 1000000, .senders = 1};
  Claim four = one;
  four.senders = 4;
  CHECK_FALSE(possible(one));
  CHECK(possible(four));
}

TEST_CASE("the clock may be wrong by its step") {
  CHECK(
      possible({.path = Path::kPeerGpu, .trip = Trip::kRound, .us = 0.65, .clock_error_us = 0.1}));
}

TEST_CASE("zero and not-a-number are refused") {
  CHECK_FALSE(possible({.us = 0}));
  CHECK_FALSE(possible({.us = -1, .clock_error_us = 2}));
  CHECK_FALSE(possible({.us = std::numeric_limits<double>::quiet_NaN()}));
}

TEST_CASE("the refusal names size, path and floor") {
  const auto text =
      below_floor({.path = Path::kPeerGpu, .trip = Trip::kRound, .us = 0.2, .bytes = 8});
  REQUIRE(text);
  CHECK_THAT(*text, Catch::StartsWith("FAIL: below the physical floor"));
  CHECK_THAT(*text, Catch::Contains("0.2 us") && Catch::Contains("8 bytes") &&
                        Catch::Contains("peer GPU") && Catch::Contains("0.7 us"));
}

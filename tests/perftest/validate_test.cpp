#include "perftest/common/validate.h"

#include <catch2/catch.hpp>

#include <vector>

using namespace perftest;

namespace {

/// Returns a message of `key` with its guard, as it should arrive.
std::vector<std::byte> arrived(const PatternKey& key) {
  std::vector<std::byte> image(key.size);
  fill_pattern(image, key);
  image.resize(key.size + kGuardBytes, kPoison);
  return image;
}

}  // namespace

TEST_CASE("a pattern matches itself, in every size") {
  for (const std::size_t size : {1u, 7u, 8u, 9u, 63u, 4096u, 4099u}) {
    const PatternKey key{.size = size, .round = 3, .pe = 1};
    CHECK_FALSE(find_mismatch(arrived(key), size, key));
  }
}

TEST_CASE("size, round and PE change a pattern") {
  const PatternKey key{.size = 64, .round = 1, .pe = 0};
  const auto image = arrived(key);
  CHECK(find_mismatch(image, 64, {.size = 64, .round = 2, .pe = 0}));
  CHECK(find_mismatch(image, 64, {.size = 64, .round = 1, .pe = 1}));
  CHECK(find_mismatch(image, 64, {.size = 128, .round = 1, .pe = 0}));
}

TEST_CASE("one wrong byte is found, wherever it is") {
  const PatternKey key{.size = 100, .round = 1, .pe = 0};
  for (std::size_t at = 0; at < key.size; ++at) {
    auto image = arrived(key);
    image[at] ^= std::byte{1};
    const auto problem = find_mismatch(image, key.size, key);
    REQUIRE(problem);
    CHECK_THAT(*problem, Catch::StartsWith("byte " + std::to_string(at) + " "));
  }
}

TEST_CASE("a byte after the message is found") {
  const PatternKey key{.size = 100, .round = 1, .pe = 0};
  auto image = arrived(key);
  image[100] = std::byte{0};
  const auto problem = find_mismatch(image, key.size, key);
  REQUIRE(problem);
  CHECK_THAT(*problem, Catch::Contains("byte 100") && Catch::Contains("after the end"));
}

TEST_CASE("a destination that was not written is found") {
  const PatternKey key{.size = 8, .round = 1, .pe = 0};
  const std::vector<std::byte> image(8 + kGuardBytes, kPoison);
  CHECK(find_mismatch(image, 8, key));
}

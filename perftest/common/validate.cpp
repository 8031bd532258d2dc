#include "perftest/common/validate.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace perftest {
namespace {

/// This is splitmix64, the generator of Java's SplittableRandom (Steele, Lea, Flood, OOPSLA 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t seed_of(const PatternKey& key) {
  return mix(mix(key.size) ^ (std::uint64_t{key.round} << 32) ^ static_cast<std::uint64_t>(key.pe));
}

/// Calls `visit(at, word, bytes)` for each word of `count` bytes of the pattern.
template <class Visit>
void for_each_word(std::size_t count, const PatternKey& key, const Visit& visit) {
  const std::uint64_t seed = seed_of(key);
  for (std::size_t at = 0; at < count; at += 8) {
    const std::uint64_t word = mix(seed + at / 8);
    if (!visit(at, word, std::min<std::size_t>(8, count - at))) return;
  }
}

std::string describe(std::size_t at, std::byte found, std::byte wanted, const PatternKey& key,
                     const char* where) {
  char text[200];
  std::snprintf(text, sizeof(text),
                "byte %zu%s is 0x%02x, not 0x%02x (size %zu, round %u, data of PE %d)", at, where,
                std::to_integer<unsigned>(found), std::to_integer<unsigned>(wanted), key.size,
                key.round, key.pe);
  return text;
}

}  // namespace

void fill_pattern(std::span<std::byte> bytes, const PatternKey& key) {
  for_each_word(bytes.size(), key, [&](std::size_t at, std::uint64_t word, std::size_t n) {
    std::memcpy(bytes.data() + at, &word, n);
    return true;
  });
}

std::optional<std::string> find_mismatch(std::span<const std::byte> bytes, std::size_t size,
                                         const PatternKey& key) {
  std::optional<std::string> found;
  for_each_word(std::min(size, bytes.size()), key,
                [&](std::size_t at, std::uint64_t word, std::size_t n) {
                  if (std::memcmp(bytes.data() + at, &word, n) == 0) return true;
                  std::byte wanted[8];
                  std::memcpy(wanted, &word, 8);
                  std::size_t k = 0;
                  while (bytes[at + k] == wanted[k]) ++k;
                  found = describe(at + k, bytes[at + k], wanted[k], key, "");
                  return false;
                });
  for (std::size_t at = size; !found && at < bytes.size(); ++at) {
    if (bytes[at] != kPoison) {
      found = describe(at, bytes[at], kPoison, key, ", after the end of the message,");
    }
  }
  return found;
}

}  // namespace perftest

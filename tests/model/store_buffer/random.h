// Random numbers that are the same everywhere for the same seed.
#pragma once

#include <cstdint>

namespace gshmem::model {

/// splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  /// 0 to n - 1.
  std::uint32_t below(std::uint64_t n) { return static_cast<std::uint32_t>((next() >> 32) % n); }
  bool chance(std::uint32_t of_256) { return (next() >> 32 & 255) < of_256; }

 private:
  std::uint64_t state_;
};

}  // namespace gshmem::model

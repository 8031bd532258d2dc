// A seed by which an adversary delays the first things that a queue pair does for long.
#pragma once

#include "transport/softnic/adversary.h"

#include <cstdint>
#include <string>

namespace gshmem::test {

/// No operation takes so long by itself, but where the machine is busy.
inline constexpr std::int64_t kLongNs = 500'000;

/// A seed and how long it delays the first `count` things of a queue pair, each for kLongNs at
/// least.
struct LongDelay {
  LongDelay(const std::string& adversary, soft::Behaviour behaviour, std::uint64_t queue,
            std::uint64_t first, std::uint64_t count) {
    const soft::AdversaryOptions options = soft::parse_adversary(adversary);
    for (;; ++seed) {
      const soft::Adversary one(options, seed);
      ns = 0;
      bool all = true;
      for (std::uint64_t i = 0; i < count && all; ++i) {
        const std::int64_t delay = one.delay_ns(behaviour, queue, first + i);
        all = delay >= kLongNs;
        ns += delay;
      }
      if (all) return;
    }
  }
  std::uint64_t seed = 1;
  std::int64_t ns = 0;
};

}  // namespace gshmem::test

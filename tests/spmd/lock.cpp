// Locks: one holder at a time, first come first served, by device and host threads.
#include "tests/spmd/spmd.h"

#include <algorithm>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

constexpr std::size_t kLocks = 3;  // on different PEs
constexpr std::size_t kWords = 8;

/// Increments words of PE 0 that only the lock protects.
GSHMEM_FN void count_up(std::uint64_t* words, std::uint64_t (&mine)[kWords]) {
  gshmem_uint64_get(mine, words, kWords, 0);
  for (std::uint64_t& word : mine) ++word;
  gshmem_uint64_put(words, mine, kWords, 0);
}

struct LockedCounts {
  GSHMEM_FN void operator()(const LaunchContext&, Log log, long* locks, std::uint64_t* words,
                            int rounds) const {
    run(log, locks, words, rounds);
  }
  GSHMEM_FN static void run(Log log, long* locks, std::uint64_t* words, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      const std::size_t at = static_cast<std::size_t>(round) % kLocks;
      long* const lock = locks + at;
      if (round % 4 == 3) {
        unsigned polls = 0;
        while (gshmem_test_lock(lock) != 0) device::pause(++polls);
      } else {
        gshmem_set_lock(lock);
      }
      SPMD_EQ(log, gshmem_test_lock(lock), 1);
      std::uint64_t mine[kWords];
      count_up(words + at * kWords, mine);
      for (const std::uint64_t word : mine) SPMD_EQ(log, word, mine[0]);
      gshmem_clear_lock(lock);
    }
  }
};

void test_counts(Pe& pe, const SymmetricArray<std::uint64_t>& words, std::size_t holders,
                 int rounds) {
  pe.barrier();
  const std::vector<std::uint64_t> values = words.to_vector(0);
  std::vector<std::uint64_t> expected(kLocks);
  for (int round = 0; round < rounds; ++round)
    expected[static_cast<std::size_t>(round) % kLocks] +=
        holders * static_cast<std::size_t>(pe.n());
  for (std::size_t i = 0; i < values.size(); ++i) SPMD_EQ(pe, values[i], expected[i / kWords], i);
  pe.barrier();
}

}  // namespace

SPMD_TEST(a_lock_has_one_holder_at_a_time) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  const LaunchShape shape{.blocks = 3, .threads = 1};
  const int rounds = std::max(4, pe.rounds(1000) / pe.n());
  SymmetricArray<long> locks(kLocks);
  SymmetricArray<std::uint64_t> words(kLocks * kWords);
  pe.run(shape, LockedCounts{}, locks.data(), words.data(), rounds);
  test_counts(pe, words, shape.blocks, rounds);
}

SPMD_TEST(host_threads_hold_locks_one_at_a_time) {
  constexpr int kRounds = 6;
  SymmetricArray<long> locks(kLocks);
  SymmetricArray<std::uint64_t> words(kLocks * kWords);
  LockedCounts::run(pe.host_log(), locks.data(), words.data(), kRounds);
  test_counts(pe, words, 1, kRounds);
}

// One PE's run of the suite: join the job, run the tests, leave. Included by main.cpp and by the
// tests of init and finalize.
#pragma once

#include "tests/spmd/spmd.h"

#include <memory>

namespace gshmem::spmd {

struct Options {
  Mode mode = Mode::kThreads;
  int pes = 2;
  std::uint64_t seed = 1;
  unsigned sample = 1;             ///< one of this many combinations is run (Pe::draws)
  std::vector<std::string> names;  ///< tests to run; empty = all
};

class Session {
 public:
  /// `world` and `rank` with Mode::kThreads, `id` and `rank` with Mode::kUid.
  Session(const Options& options, gshmemx_thread_world_t* world, int rank,
          const gshmemx_uniqueid_t* id)
      : options_(options), world_(world), rank_(rank), id_(id) {}

  /// Joins the job with `symmetric_size` bytes of heap (0 = as configured).
  [[nodiscard]] std::unique_ptr<Runtime> join(std::uint64_t symmetric_size = 0) const;
  /// True where a PE can join the job again after finalize.
  [[nodiscard]] bool can_rejoin() const { return options_.mode != Mode::kUid; }
  [[nodiscard]] const Options& options() const { return options_; }
  /// Runs the requested tests; returns the number of tests that failed on this PE.
  int run();

 private:
  int run_test(Pe& pe, const Test& test) const;
  int run_alone(const Test& test) const;
  [[nodiscard]] bool wanted(const char* name) const;

  Options options_;
  gshmemx_thread_world_t* world_;
  int rank_;
  const gshmemx_uniqueid_t* id_;
};

/// Why life tests are skipped if a PE cannot rejoin.
inline constexpr char kJoinsOnce[] = "a job of a unique id can be joined once";

/// A test that joins and leaves the job itself, more than once; failures go to `failures`.
struct LifeTest {
  const char* name;
  void (*body)(const Session& session, std::vector<std::string>& failures);
};
[[nodiscard]] const std::vector<LifeTest>& life_tests();

}  // namespace gshmem::spmd

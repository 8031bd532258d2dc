// The conformance suite's registry: test bodies that every leg runs unchanged (threads, processes,
// GPUs). Included by every test of tests/spmd. A body runs once per PE, on all PEs at the same
// time, inside one initialized job. Its checks collect failures and never throw, so that no PE
// leaves its peers waiting in a collective.
#pragma once

#include "tests/spmd/log.h"

#include <mutex>
#include <string>
#include <vector>

namespace gshmem::spmd {

/// How the PEs of this run were started.
enum class Mode { kThreads, kLaunched, kUid, kUidAddress };

/// Why a body is skipped if !Pe::c_api_in_kernels().
inline constexpr char kTwoPesOnAGpu[] = "two PEs of this process are on one GPU";

/// One PE of the job, for the host part of a test.
class Pe {
 public:
  Pe(Mode mode, std::uint64_t seed, unsigned sample);

  [[nodiscard]] int me() const { return me_; }
  [[nodiscard]] int n() const { return n_; }
  [[nodiscard]] int next() const { return (me_ + 1) % n_; }
  [[nodiscard]] int previous() const { return (me_ + n_ - 1) % n_; }
  [[nodiscard]] bool on_gpu() const { return on_gpu_; }
  [[nodiscard]] Mode mode() const { return mode_; }
  /// Should PE `target` be reached by load and store? Those of this host are, or none
  /// (GSHMEM_P2P=0). A leg with several hosts sets the number of PEs on each (SPMD_PES_PER_HOST).
  [[nodiscard]] bool maps(int target) const;
  /// Do the PE's operations use the network path, which may be a thousand times slower?
  [[nodiscard]] bool on_network() const;
  /// Threads in a warp of a launch.
  [[nodiscard]] unsigned warp() const { return on_gpu_ ? 32u : 4u; }
  /// Returns false if the C API in a kernel cannot find its PE: two PEs of this process use one
  /// GPU.
  [[nodiscard]] bool c_api_in_kernels() const { return c_api_in_kernels_; }
  /// Seed of the running test, the same on all PEs.
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  /// Returns `count` repetitions, fewer if they are slow (sanitizers, PEs that share a GPU).
  [[nodiscard]] int rounds(int count) const;
  /// Does this run test the next of many combinations that differ little? One leg of each path
  /// tests all, the others about one of --sample, by the seed. All PEs that call it equally often
  /// get the same answer.
  [[nodiscard]] bool draws() { return mix(seed_ + 1, ++drawn_) % sample_ == 0; }

  /// Launches `functor(ctx, log, args...)` for this PE, waits for it, and collects its failures.
  template <class F, class... Args>
  void run(LaunchShape shape, const F& functor, Args... args) {
    launch(shape, functor, Log{log_.data()}, args...);
    synchronize();
    collect();
  }
  /// For a test's own launches, which have ended when the body ends.
  [[nodiscard]] Log log() const { return {const_cast<LogArea*>(log_.data())}; }
  /// For device functions that a test calls on its host thread.
  [[nodiscard]] Log host_log() { return {&host_area_}; }
  void barrier() const { gshmem_barrier_all(); }

  template <class T>
  void equal(int line, const T& actual, const std::type_identity_t<T>& expected,
             std::uint64_t tag = 0) {
    if (actual == expected) return;
    fail(line, "got " + text(actual) + ", expected " + text(expected) +
                   (tag ? ", tag " + std::to_string(tag) : ""));
  }
  /// Compares bytes of this PE's heap with the expected ones; reports the first difference.
  void equal_bytes(int line, const std::vector<std::uint8_t>& actual,
                   const std::vector<std::uint8_t>& expected);
  /// Ends the body, which has nothing to test in this run.
  void skip(const char* why) { skipped_ = why; }
  /// Threads: any, as all checks.
  void fail(int line, const std::string& what);
  /// Returns this PE's copy of symmetric memory.
  [[nodiscard]] std::vector<std::uint8_t> read(const void* symmetric, std::size_t bytes) const;
  void write(void* symmetric, const std::vector<std::uint8_t>& bytes) const;

 private:
  friend class Session;
  void begin(const char* name, const char* file, std::uint64_t base_seed);
  void collect();
  void take_over(const LogArea& area, const char* who);

  static std::string text(const std::string& value) { return "\"" + value + "\""; }
  static std::string text(const char* value) { return text(std::string(value)); }
  static std::string text(const void* value) {
    return std::to_string(reinterpret_cast<std::uintptr_t>(value));
  }
  template <class T>
  static std::string text(const T& value) requires(std::is_arithmetic_v<T>) {
    return std::to_string(value);
  }

  Mode mode_;
  int me_, n_;
  bool on_gpu_, c_api_in_kernels_;
  std::uint64_t seed_ = 0, drawn_ = 0;
  unsigned sample_;
  const char* file_ = "";
  const char* skipped_ = nullptr;
  SymmetricArray<LogArea> log_;
  LogArea host_area_{};
  std::mutex mutex_;
  std::vector<std::string> failures_;
  std::size_t failure_count_ = 0;
};

struct Test {
  const char* name;
  const char* file;
  void (*body)(Pe&);
  std::uint64_t own_heap = 0;  ///< not 0: it has a job of its own, with a heap of that size
};
inline constexpr Scope kScopes[] = {Scope::kThread, Scope::kWarp, Scope::kBlock};
/// Returns a launch with several groups of that kind; blocks have an odd size.
[[nodiscard]] inline LaunchShape shape_of(const Pe& pe, Scope scope) {
  switch (scope) {
    case Scope::kThread:
      return {.blocks = 1, .threads = 3};
    case Scope::kWarp:
      return {.blocks = 1, .threads = 2 * pe.warp()};
    case Scope::kBlock:
      break;
  }
  return {.blocks = 2, .threads = pe.on_gpu() ? 100u : 5u};
}

/// Returns a launch with one group.
[[nodiscard]] inline LaunchShape one_group(const Pe& pe, Scope scope) {
  LaunchShape shape = shape_of(pe, scope);
  shape.blocks = 1;
  if (scope == Scope::kThread) shape.threads = 1;
  if (scope == Scope::kWarp) shape.threads = pe.warp();
  return shape;
}

/// Every test linked into this program.
[[nodiscard]] std::vector<Test>& tests();

struct Registration {
  Registration(const char* name, const char* file, void (*body)(Pe&), std::uint64_t own_heap = 0) {
    tests().push_back({name, file, body, own_heap});
  }
};

}  // namespace gshmem::spmd

/// Begins a body, which uses `pe`. Its name states a fact.
#define SPMD_TEST(NAME) SPMD_TEST_WITH_HEAP(NAME, 0)
/// Begins a body that runs in a job of its own, with a heap of that size, not 0.
#define SPMD_TEST_WITH_HEAP(NAME, BYTES)                                                      \
  static void NAME(::gshmem::spmd::Pe& pe);                                                   \
  static const ::gshmem::spmd::Registration gshmem_registration_##NAME(#NAME, __FILE__, NAME, \
                                                                       BYTES);                \
  static void NAME([[maybe_unused]] ::gshmem::spmd::Pe& pe)

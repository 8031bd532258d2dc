// A perftest's view of its PE: partners, agreement between the PEs, repeated measurements, rows
// with the floor check. Functions marked collective are called by all PEs in the same order; an
// error is found by one PE and ends all of them, so that no PE waits for one that has given up.
#pragma once

#include "perftest/common/floor.h"
#include "perftest/common/options.h"
#include "perftest/common/report.h"
#include "perftest/common/validate.h"

#include <gshmem/gshmem.hpp>

#include <functional>

namespace perftest {

/// The run has failed and the reason is printed; `code` is the exit status.
struct Failed {
  int code;
};

/// Whom this PE sends to (or gets from), and who does so to it; -1 = nobody.
struct Role {
  int target = -1, source = -1;
  [[nodiscard]] bool is_active() const { return target >= 0; }
};
[[nodiscard]] Role role_of(const Options& options, int my_pe, int n_pes);

/// Times of one iteration over the repetitions, mean of the active PEs. The same on all PEs.
struct Measurement {
  double min_us = 0, median_us = 0;
  double fastest_us = 0;  ///< of any PE in any repetition
  unsigned iters = 0, active_pes = 0;
};

class Bench {
 public:
  /// Collective. `report` is null except on PE 0.
  Bench(gshmem::Runtime& runtime, const Options& options);
  void set_report(Report* report) { report_ = report; }

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] int my_pe() const { return my_pe_; }
  [[nodiscard]] int n_pes() const { return n_pes_; }
  [[nodiscard]] bool on_gpu() const { return on_gpu_; }
  [[nodiscard]] Path path() const { return path_; }
  [[nodiscard]] Role role() const { return role_of(options_, my_pe_, n_pes_); }

  /// Shape of a launch in which `scope` makes calls: one thread, one warp, or blocks as in --ctas
  /// and --threads_per_cta. Errors: UsageError for a partial warp.
  [[nodiscard]] gshmem::LaunchShape shape_of(const std::string& scope) const;
  /// As many groups of that scope as --ctas and --threads_per_cta have room for.
  [[nodiscard]] gshmem::LaunchShape full_shape(const std::string& scope) const;

  /// Collective: the value of every PE, by PE.
  [[nodiscard]] std::vector<double> gather(double mine);
  /// Collective: returns when no PE has a problem; else prints them and throws Failed.
  void agree(const std::string& problem);
  void barrier() { gshmem_barrier_all(); }

  /// Collective: `run(first, warmup, iters)` is called on all PEs with the same arguments, once to
  /// choose the number of iterations and then once per repetition; it returns the nanoseconds of
  /// `iters` iterations, or 0 on a PE that took no part. `first` is the number of the first
  /// iteration, counted over the whole program, so that flags need no reset.
  using Run = std::function<double(std::uint64_t first, unsigned warmup, unsigned iters)>;
  [[nodiscard]] Measurement repeat(const Run& run);
  /// The number of the next iteration; the `count` from there on belong to the caller.
  std::uint64_t take_iterations(std::uint64_t count);

  /// Collective: prints the row, unless it is impossible. `wire_bytes` cross the path one after the
  /// other in one iteration.
  void add_row(Row row, const Measurement& measured, Trip trip, std::size_t wire_bytes);
  void add_summary(const std::string& key, const std::string& text);

  /// Start and end times of blocks, written by kernels (timing.h).
  [[nodiscard]] std::uint64_t* stamps() const { return stamps_.data(); }
  [[nodiscard]] double elapsed_ns(unsigned blocks) const;

 private:
  [[nodiscard]] Path find_path();
  [[nodiscard]] unsigned choose_iters(const Run& run);

  Options options_;
  int my_pe_, n_pes_;
  bool on_gpu_;
  gshmem::SymmetricArray<double> board_;  ///< gather: slot of each PE
  gshmem::SymmetricArray<std::uint64_t> stamps_;
  Path path_;
  Report* report_ = nullptr;
  std::uint64_t next_iteration_ = 0;
};

/// Source and destination of a program that moves bytes, with pattern and poison.
class Exchange {
 public:
  /// Collective.
  Exchange(Bench& bench, std::size_t max_bytes);

  [[nodiscard]] std::byte* source() const { return source_.data(); }
  [[nodiscard]] std::byte* dest() const { return dest_.data(); }
  /// A fresh pattern in the first `source_bytes` of the source, poison in the first `bytes` of the
  /// destination and behind.
  void prepare(std::size_t bytes, std::size_t source_bytes);
  void prepare(std::size_t bytes) { prepare(bytes, bytes); }
  /// Collective: this PE's destination holds the pattern of `from` (-1 = nothing to check) from its
  /// byte `offset` on, and nothing behind.
  void check(std::size_t bytes, int from, std::size_t offset = 0);

 private:
  [[nodiscard]] PatternKey key(std::size_t bytes, int pe) const;

  Bench& bench_;
  gshmem::SymmetricArray<std::byte> source_, dest_;
  unsigned round_ = 0;
};

}  // namespace perftest

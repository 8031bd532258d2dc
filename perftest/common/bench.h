// A perftest's view of its PE: partners, agreement between the PEs, repeated measurements, rows
// with the floor check. Functions marked collective are called by all PEs in the same order. An
// error on one PE ends all of them, so that no PE waits for one that has given up.
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

/// The PE to which this PE sends (or from which it gets), and the PE for which this PE is the
/// target; -1 = none.
struct Role {
  int target = -1, source = -1;
  [[nodiscard]] bool is_active() const { return target >= 0; }
};
[[nodiscard]] Role role_of(const Options& options, int my_pe, int n_pes);

/// Times of one iteration over the repetitions, as the mean of the active PEs. They are the same on
/// all PEs.
struct Measurement {
  double min_us = 0, median_us = 0;
  double fastest_us = 0;  ///< fastest of any PE in any repetition
  double cpu_us = 0;      ///< CPU time of all PEs over the network path, else 0
  unsigned iters = 0, active_pes = 0;
};

class Bench {
 public:
  /// Collective.
  Bench(gshmem::Runtime& runtime, const Options& options);
  /// Sets the output for rows; on PE 0 only.
  void set_report(Report* report) { report_ = report; }

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] int my_pe() const { return my_pe_; }
  [[nodiscard]] int n_pes() const { return n_pes_; }
  [[nodiscard]] bool on_gpu() const { return on_gpu_; }
  [[nodiscard]] Path path() const { return path_; }
  [[nodiscard]] Role role() const { return role_of(options_, my_pe_, n_pes_); }

  /// Returns the shape of a launch in which `scope` makes calls: one thread, one warp, or blocks as
  /// in --ctas and --threads_per_cta. Errors: UsageError for a partial warp.
  [[nodiscard]] gshmem::LaunchShape shape_of(const std::string& scope) const;
  /// Returns the shape with as many groups of that scope as --ctas and --threads_per_cta allow.
  [[nodiscard]] gshmem::LaunchShape full_shape(const std::string& scope) const;

  /// Collective: returns the value of every PE, by PE.
  [[nodiscard]] std::vector<double> gather(double mine);
  /// Collective: returns when no PE has a problem; otherwise prints the problems and throws Failed.
  void agree(const std::string& problem);
  void barrier() { gshmem_barrier_all(); }

  /// Collective: `run(first, warmup, iters)` is called on all PEs with the same arguments, once to
  /// choose the number of iterations and then once per repetition. It returns the nanoseconds of
  /// `iters` iterations, or 0 on a PE that took no part. `first` is the number of the first
  /// iteration, counted over the whole program, so that flags need no reset.
  using Run = std::function<double(std::uint64_t first, unsigned warmup, unsigned iters)>;
  [[nodiscard]] Measurement repeat(const Run& run);
  /// Returns the number of the next iteration; the `count` iterations from there on belong to the
  /// caller.
  std::uint64_t take_iterations(std::uint64_t count);
  [[nodiscard]] std::uint64_t iterations_taken() const { return next_iteration_; }

  /// Collective: prints the row, unless it is impossible. In one iteration `wire_bytes` cross the
  /// path one after the other.
  void add_row(Row row, const Measurement& measured, Trip trip, std::size_t wire_bytes);
  void add_summary(const std::string& key, const std::string& text);

  /// Start and end times of blocks, written by kernels (timing.h).
  [[nodiscard]] std::uint64_t* stamps() const { return stamps_.data(); }
  [[nodiscard]] double elapsed_ns(unsigned blocks) const;

 private:
  [[nodiscard]] Path find_path();
  [[nodiscard]] unsigned choose_iters(const Run& run);
  [[nodiscard]] double cpu_of_all_us(double mine_us);

  Options options_;
  int my_pe_, n_pes_;
  bool on_gpu_;
  gshmem::SymmetricArray<double> board_;  ///< for gather: a slot for each PE
  gshmem::SymmetricArray<std::uint64_t> stamps_;
  Path path_;
  Report* report_ = nullptr;
  std::uint64_t next_iteration_ = 0;
};

/// The source and destination of a program that transfers bytes, with pattern and poison.
class Exchange {
 public:
  /// Collective.
  Exchange(Bench& bench, std::size_t max_bytes);

  [[nodiscard]] std::byte* source() const { return source_.data(); }
  [[nodiscard]] std::byte* dest() const { return dest_.data(); }
  template <class T>
  [[nodiscard]] T* source_as() const {
    return reinterpret_cast<T*>(source());
  }
  template <class T>
  [[nodiscard]] T* dest_as() const {
    return reinterpret_cast<T*>(dest());
  }
  /// Stores a fresh pattern in the first `source_bytes` of the source, and poison in the first
  /// `bytes` of the destination and after them.
  void prepare(std::size_t bytes, std::size_t source_bytes);
  void prepare(std::size_t bytes) { prepare(bytes, bytes); }
  /// Collective: checks that this PE's destination holds the pattern of `from` (-1 = nothing to
  /// check), and poison after it.
  void check(std::size_t bytes, int from) { check(bytes, from, {}); }
  /// For check: one element of `bytes` bytes in every `stride`.
  struct Elements {
    std::size_t bytes = 1, stride = 1;
  };
  void check(std::size_t bytes, int from, Elements elements);

 private:
  [[nodiscard]] PatternKey key(std::size_t bytes, int pe) const;

  Bench& bench_;
  gshmem::SymmetricArray<std::byte> source_, dest_;
  unsigned round_ = 0;
};

/// Calls `run(T{})` with the unsigned integer of `bytes` bytes. Errors: UsageError.
template <class Run>
void with_word(std::size_t bytes, const Run& run) {
  switch (bytes) {
    case 1:
      return run(std::uint8_t{});
    case 2:
      return run(std::uint16_t{});
    case 4:
      return run(std::uint32_t{});
    case 8:
      return run(std::uint64_t{});
  }
  throw UsageError("no element of " + std::to_string(bytes) + " bytes");
}

/// Calls `run(T{}, name)` for the type of --datatype, or for one of each size if it was not given.
template <class Run>
void for_each_word(const Bench& bench, const Run& run) {
  for (const char* name : {"uint8", "uint16", "uint32", "uint64"}) {
    const std::string& given = bench.options().datatype;
    const DataType* type = find_type(given.empty() ? name : given);
    with_word(type->size, [&](auto word) { run(word, std::string(type->name)); });
    if (!given.empty()) return;
  }
}

}  // namespace perftest

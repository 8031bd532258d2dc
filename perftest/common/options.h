// Options of the perftests: one table (options.cpp), which CLI11 parses by and makes --help of.
// Names and meaning are those of NVSHMEM's perftests where it has them. Included by every perftest;
// knows nothing of gshmem's runtime.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace perftest {

/// Options that a program takes besides those that all programs take. Or them together.
enum OptionGroup : unsigned {
  kCommon = 1u << 0,     ///< iterations, repetitions, output, PEs
  kSizes = 1u << 1,      ///< -b -e -f --increment
  kShape = 1u << 2,      ///< -c -t
  kScope = 1u << 3,      ///< -s
  kType = 1u << 4,       ///< -d
  kAtomic = 1u << 5,     ///< -o
  kBandwidth = 1u << 6,  ///< --bidir --report_msgrate
  kPattern = 1u << 7,    ///< --pattern
  kSweep = 1u << 8,      ///< --sweep_ctas
  kStride = 1u << 9,     ///< -i
  kUnroll = 1u << 10,    ///< --unroll
  kSmem = 1u << 11,      ///< --smem
  kCaller = 1u << 12,    ///< -s of all who make calls, --call
  kAcks = 1u << 13,      ///< --acks
};

/// Zero and "" mean "not given": apply_defaults fills them in when the mode is known.
struct Options {
  std::size_t min_size = 0, max_size = 0, increment = 0;
  unsigned step = 0;
  unsigned iters = 0;  ///< stays 0 unless given: chosen by time, see timing.h
  unsigned warmup_iters = 0, repetitions = 0;
  unsigned ctas = 0, threads_per_cta = 0;
  std::string scope{}, call{}, datatype{}, atomic_op{}, pattern{}, format{}, acks{};
  unsigned stride = 0, unroll = 0;
  bool bidir = false, report_msgrate = false, sweep_ctas = false, smem = false;
  unsigned pes = 0;  ///< 0: one PE, or as many as the launcher started
  bool inject_corruption = false;
  bool inject_fast_clock = false;
  bool help = false;
};

/// Wrong use of the command line. what() names the option, its value and what is accepted.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Errors: UsageError; also for an option that is not in `groups`.
[[nodiscard]] Options parse_options(unsigned groups, std::vector<std::string> arguments);
/// "'6' is not accepted; accepted: 1 to 4": what an error of use says after the option's name.
[[nodiscard]] std::string not_accepted(const std::string& value, std::string_view accepted);
/// --help of a program.
[[nodiscard]] std::string help_text(const std::string& program, const std::string& summary,
                                    unsigned groups);
/// Takes from `defaults` what was not given. A size that was given moves the other one along.
void apply_defaults(Options& options, const Options& defaults);

/// From min_size to max_size by step or increment; only multiples of `unit`, the rest rounded up.
[[nodiscard]] std::vector<std::size_t> sizes_of(const Options& options, std::size_t unit);
/// The scopes of --scope: one, or all three.
[[nodiscard]] std::vector<std::string> scopes_of(const Options& options);
/// The callers of --scope: one, or all five.
[[nodiscard]] std::vector<std::string> callers_of(const Options& options);

/// An element type of --datatype, from gshmem's type table.
struct DataType {
  std::string_view name;
  std::size_t size;
  bool is_atomic;  ///< has fetch, set and swap at least
  bool has_add;    ///< has add and compare_swap too
  bool has_bits;   ///< has and, or, xor too
};
/// Null for an unknown name.
[[nodiscard]] const DataType* find_type(std::string_view name);

}  // namespace perftest

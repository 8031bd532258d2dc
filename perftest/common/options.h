// The options of the perftests: one table (options.cpp), by which CLI11 parses them and prints
// --help. Names and meaning are those of NVSHMEM's perftests if it has them. Included by every
// perftest; it does not use gshmem's runtime.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace perftest {

/// Groups of options that a program accepts in addition to those of all programs. Combine them by
/// |.
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
  kCaller = 1u << 12,    ///< -s with every kind of caller, --call
  kAcks = 1u << 13,      ///< --acks
  kList = 1u << 14,      ///< --pieces
};

/// Zero and "" mean "not given": apply_defaults fills them in when the mode is known.
struct Options {
  std::size_t min_size = 0, max_size = 0, increment = 0;
  unsigned step = 0;
  unsigned iters = 0;  ///< stays 0 unless given: the time decides, see timing.h
  unsigned warmup_iters = 0, repetitions = 0;
  unsigned ctas = 0, threads_per_cta = 0;
  std::string scope{}, call{}, datatype{}, atomic_op{}, pattern{}, format{}, acks{};
  unsigned stride = 0, unroll = 0, pieces = 0;
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
/// Returns "'6' is not accepted; accepted: 1 to 4", which follows the option's name in an error.
[[nodiscard]] std::string not_accepted(const std::string& value, std::string_view accepted);
/// Returns the text for --help of a program.
[[nodiscard]] std::string help_text(const std::string& program, const std::string& summary,
                                    unsigned groups);
/// Takes from `defaults` the values that were not given. If one size was given, the other one is
/// adjusted.
void apply_defaults(Options& options, const Options& defaults);

/// Returns the sizes from min_size to max_size by step or increment; only multiples of `unit`,
/// rounded up.
[[nodiscard]] std::vector<std::size_t> sizes_of(const Options& options, std::size_t unit);
/// Returns the scopes of --scope: one, or all three.
[[nodiscard]] std::vector<std::string> scopes_of(const Options& options);
/// Returns the callers of --scope: one, or all five.
[[nodiscard]] std::vector<std::string> callers_of(const Options& options);

/// An element type of --datatype, from gshmem's type table.
struct DataType {
  std::string_view name;
  std::size_t size;
  bool is_atomic;  ///< has at least fetch, set and swap
  bool has_add;    ///< also has add and compare_swap
  bool has_bits;   ///< also has and, or, xor
};
/// Returns null for an unknown name.
[[nodiscard]] const DataType* find_type(std::string_view name);

}  // namespace perftest

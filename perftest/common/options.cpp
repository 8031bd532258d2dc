#include "perftest/common/options.h"

#include <gshmem/types.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace perftest {
namespace {

using Target = std::variant<std::size_t Options::*, unsigned Options::*, std::string Options::*,
                            bool Options::*>;

struct OptionRow {
  const char* names;
  unsigned group;
  Target target;
  const char* accepted;  ///< words separated by |, or "LOW to HIGH", or a description of the values
  const char* help;      ///< "" = not shown
};

constexpr const char* kSizeValues = "bytes, suffix K, M or G";
constexpr const char* kCountValues = "1 to 4294967295";

enum AmoClass { kNONE, kEXT, kSTD, kBIT };
constexpr DataType kTypes[] = {
#define GSHMEM_TYPE(NAME, TYPE, AMO, WAIT, REDUCE) \
  {#NAME, sizeof(TYPE), k##AMO >= kEXT && sizeof(TYPE) >= 4, k##AMO >= kSTD, k##AMO >= kBIT},
#include <gshmem/types.def>
};
constexpr const char* kTypeNames =
#define GSHMEM_TYPE(NAME, TYPE, AMO, WAIT, REDUCE) "|" #NAME
#include <gshmem/types.def>
    ;

constexpr const char* kCallNames = "all"
#define PERFTEST_CALLERS 15
#define PERFTEST_CALL(NAME, ...) "|" #NAME
#include "perftest/common/calls.def"
    ;
#undef PERFTEST_CALLERS

const OptionRow kTable[] = {
    {"-b,--min_size", kSizes, &Options::min_size, kSizeValues, "smallest size"},
    {"-e,--max_size", kSizes, &Options::max_size, kSizeValues, "largest size"},
    {"-f,--step", kSizes, &Options::step, "2 to 4294967295", "factor from one size to the next"},
    {"--increment", kSizes, &Options::increment, kSizeValues, "add this instead of multiplying"},
    {"-n,--iters", kCommon, &Options::iters, kCountValues,
     "iterations per measurement (default: as many as take a few ms)"},
    {"-w,--warmup_iters", kCommon, &Options::warmup_iters, kCountValues,
     "iterations before the clock starts, in the same kernel"},
    {"-r,--repetitions", kCommon, &Options::repetitions, kCountValues,
     "measurements, of which minimum and median are reported"},
    {"-c,--ctas", kShape, &Options::ctas, kCountValues, "blocks"},
    {"-t,--threads_per_cta", kShape | kScope | kCaller, &Options::threads_per_cta, kCountValues,
     "threads per block"},
    {"-s,--scope", kScope, &Options::scope, "thread|warp|block|all", "who makes a call"},
    {"-s,--scope", kCaller, &Options::scope, "thread|warp|block|host|stream|all",
     "who makes a call"},
    {"--call", kCaller, &Options::call, kCallNames, "what is called"},
    {"-d,--datatype", kType, &Options::datatype, kTypeNames + 1, "element type"},
    {"-o,-a,--atomic_op", kAtomic, &Options::atomic_op,
     "inc|add|and|or|xor|set|swap|compare_swap|fetch|fetch_inc|fetch_add|fetch_and|fetch_or|"
     "fetch_xor|all",
     "operation"},
    {"-i,--stride", kStride, &Options::stride, kCountValues, "elements from one to the next"},
    {"--unroll", kUnroll, &Options::unroll, "1|4", "elements asked for before the first is used"},
    {"--bidir", kBandwidth, &Options::bidir, "", "both sides of a pair send"},
    {"--report_msgrate", kBandwidth, &Options::report_msgrate, "",
     "also print operations per second"},
    {"--pattern", kPattern, &Options::pattern, "pair|ring",
     "PE i to i + n/2, or every PE to the next one"},
    {"--sweep_ctas", kSweep, &Options::sweep_ctas, "",
     "1 .. ctas blocks, and how many reach 95 % of the peak"},
    {"--acks", kAcks, &Options::acks, "host|gpu|all", "who acknowledges what is put"},
    {"--pieces", kList, &Options::pieces, kCountValues, "pieces of a list"},
    {"--smem", kSmem, &Options::smem, "",
     "blocks give shared memory, and copies use it (in CPU mode they do not)"},
    {"--format", kCommon, &Options::format, "table|csv|json", "output"},
    {"--pes", kCommon, &Options::pes, "1 to 1024",
     "run this many PEs as threads of this process, without a launcher"},
    {"--inject_corruption", kCommon, &Options::inject_corruption, "", ""},
    {"--inject_fast_clock", kCommon, &Options::inject_fast_clock, "", ""},
};

std::optional<std::uint64_t> parse_digits(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Parses "3", "2K", "64M" or "1g" into bytes.
std::optional<std::size_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kSuffixes = "KMGkmg";
  unsigned shift = 0;
  const std::size_t at = text.empty() ? std::string_view::npos : kSuffixes.find(text.back());
  if (at != std::string_view::npos) {
    shift = 10 * (static_cast<unsigned>(at) % 3 + 1);
    text.remove_suffix(1);
  }
  const std::optional<std::uint64_t> value = parse_digits(text);
  if (!value || *value == 0 || *value > (std::numeric_limits<std::size_t>::max() >> shift)) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(*value) << shift;
}

bool is_word_of(std::string_view list, std::string_view word) {
  return !word.empty() && word.find('|') == std::string_view::npos &&
         ("|" + std::string(list) + "|").find("|" + std::string(word) + "|") != std::string::npos;
}

/// Does the row accept `text`? A size is replaced by its number of bytes.
bool is_accepted(const OptionRow& row, std::string& text) {
  const std::string_view accepted = row.accepted;
  if (std::holds_alternative<std::size_t Options::*>(row.target)) {
    const std::optional<std::size_t> bytes = parse_bytes(text);
    if (bytes) text = std::to_string(*bytes);
    return bytes.has_value();
  }
  const std::size_t to = accepted.find(" to ");
  if (to == std::string_view::npos) return is_word_of(accepted, text);
  const std::optional<std::uint64_t> value = parse_digits(text);
  return value && *value >= *parse_digits(accepted.substr(0, to)) &&
         *value <= *parse_digits(accepted.substr(to + 4));
}

/// Declares the command line of a program with these groups, which is read into `options`.
void declare(CLI::App& app, unsigned groups, Options& options) {
  for (const OptionRow& row : kTable) {
    if (!(row.group & (groups | kCommon))) continue;
    CLI::Option* option = std::visit(
        [&](auto member) {
          if constexpr (std::is_same_v<decltype(member), bool Options::*>) {
            return app.add_flag(row.names, options.*member, row.help)->disable_flag_override();
          } else {
            return app.add_option(row.names, options.*member, row.help)->type_name(row.accepted);
          }
        },
        row.target);
    option->take_last();
    if (!*row.help) option->group("");
    if (*row.accepted) {
      option->transform(CLI::Validator(
          [&row](std::string& text) {
            const std::string given = text;
            return is_accepted(row, text) ? "" : not_accepted(given, row.accepted);
          },
          ""));
    }
  }
}

}  // namespace

std::string not_accepted(const std::string& value, std::string_view accepted) {
  return "'" + value + "' is not accepted; accepted: " + std::string(accepted);
}

Options parse_options(unsigned groups, std::vector<std::string> arguments) {
  Options options;
  CLI::App app;
  declare(app, groups, options);
  try {
    std::reverse(arguments.begin(), arguments.end());  // in the order that CLI11 expects
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    options.help = true;
    return options;
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string(error.what()) + "; see --help");
  }
  if (options.min_size > options.max_size && options.max_size != 0) {
    throw UsageError("--min_size: " + std::to_string(options.min_size) +
                     " is more than --max_size: " + std::to_string(options.max_size));
  }
  return options;
}

std::string help_text(const std::string& program, const std::string& summary, unsigned groups) {
  Options options;
  CLI::App app(program + ": " + summary + "\nRun it under mpirun or srun, or with --pes.", program);
  declare(app, groups, options);
  return app.help();
}

void apply_defaults(Options& options, const Options& defaults) {
  const bool max_given = options.max_size != 0;
  for (const OptionRow& row : kTable) {
    std::visit(
        [&](auto member) {
          auto& value = options.*member;
          if (value == std::decay_t<decltype(value)>{}) value = defaults.*member;
        },
        row.target);
  }
  if (options.min_size > options.max_size) {
    (max_given ? options.min_size : options.max_size) =
        max_given ? options.max_size : options.min_size;
  }
}

std::vector<std::size_t> sizes_of(const Options& options, std::size_t unit) {
  std::vector<std::size_t> sizes;
  std::size_t size = options.min_size;
  while (size <= options.max_size) {
    const std::size_t rounded = (size + unit - 1) / unit * unit;
    if (sizes.empty() || sizes.back() != rounded) sizes.push_back(rounded);
    const std::size_t next = options.increment ? size + options.increment : size * options.step;
    if (next <= size) break;  // overflow
    size = next;
  }
  return sizes;
}

std::vector<std::string> scopes_of(const Options& options) {
  if (options.scope == "all") return {"thread", "warp", "block"};
  return {options.scope};
}

std::vector<std::string> callers_of(const Options& options) {
  std::vector<std::string> callers = scopes_of(options);
  if (options.scope == "all") callers.insert(callers.end(), {"host", "stream"});
  return callers;
}

const DataType* find_type(std::string_view name) {
  for (const DataType& type : kTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

}  // namespace perftest

#include "perftest/common/options.h"

#include <gshmem/types.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>

namespace perftest {
namespace {

using Target = std::variant<std::size_t Options::*, unsigned Options::*, std::string Options::*,
                            bool Options::*>;

struct OptionRow {
  const char* name;
  char letter;  ///< 0 = none
  unsigned group;
  Target target;
  const char* accepted;  ///< words separated by |, or a description of the values
  const char* help;      ///< "" = not shown
};

constexpr const char* kSizeValues = "bytes, suffix K, M or G";
constexpr const char* kCountValues = "1 to 4294967295";

enum AmoClass { kNONE, kEXT, kSTD, kBIT };
constexpr DataType kTypes[] = {
#define GSHMEM_TYPE(NAME, TYPE, AMO, WAIT, REDUCE) \
  {#NAME, sizeof(TYPE), k##AMO >= kEXT, k##AMO >= kSTD, k##AMO >= kBIT},
#include <gshmem/types.def>
};
constexpr const char* kTypeNames =
#define GSHMEM_TYPE(NAME, TYPE, AMO, WAIT, REDUCE) #NAME "|"
#include <gshmem/types.def>
    ;

const OptionRow kTable[] = {
    {"min_size", 'b', kSizes, &Options::min_size, kSizeValues, "smallest size"},
    {"max_size", 'e', kSizes, &Options::max_size, kSizeValues, "largest size"},
    {"step", 'f', kSizes, &Options::step, "2 to 4294967295", "factor from one size to the next"},
    {"increment", 0, kSizes, &Options::increment, kSizeValues, "add this instead of multiplying"},
    {"iters", 'n', kCommon, &Options::iters, kCountValues,
     "iterations per measurement (default: as many as take a few ms)"},
    {"warmup_iters", 'w', kCommon, &Options::warmup_iters, kCountValues,
     "iterations before the clock starts, in the same kernel"},
    {"repetitions", 'r', kCommon, &Options::repetitions, kCountValues,
     "measurements, of which minimum and median are reported"},
    {"ctas", 'c', kShape, &Options::ctas, kCountValues, "blocks"},
    {"threads_per_cta", 't', kShape | kScope, &Options::threads_per_cta, kCountValues,
     "threads per block"},
    {"scope", 's', kScope, &Options::scope, "thread|warp|block|all", "who makes a call"},
    {"datatype", 'd', kType, &Options::datatype, kTypeNames, "element type"},
    {"atomic_op", 'o', kAtomic, &Options::atomic_op,
     "inc|add|and|or|xor|set|swap|compare_swap|fetch|fetch_inc|fetch_add|fetch_and|fetch_or|"
     "fetch_xor|all",
     "operation (also -a)"},
    {"stride", 'i', kStride, &Options::stride, kCountValues, "elements from one to the next"},
    {"unroll", 0, kUnroll, &Options::unroll, "1|4", "elements asked for before the first is used"},
    {"bidir", 0, kBandwidth, &Options::bidir, "", "both sides of a pair send"},
    {"report_msgrate", 0, kBandwidth, &Options::report_msgrate, "",
     "also print operations per second"},
    {"pattern", 0, kPattern, &Options::pattern, "pair|ring",
     "PE i to i + n/2, or every PE to the next one"},
    {"sweep_ctas", 0, kSweep, &Options::sweep_ctas, "",
     "1 .. ctas blocks, and how many reach 95 % of the peak"},
    {"format", 0, kCommon, &Options::format, "table|csv|json", "output"},
    {"pes", 0, kCommon, &Options::pes, "1 to 1024",
     "run this many PEs as threads of this process, without a launcher"},
    {"inject_corruption", 0, kCommon, &Options::inject_corruption, "", ""},
    {"inject_fast_clock", 0, kCommon, &Options::inject_fast_clock, "", ""},
    {"help", 'h', kCommon, &Options::help, "", "this text"},
};

bool is_flag(const OptionRow& row) { return std::holds_alternative<bool Options::*>(row.target); }

std::string shown_name(const OptionRow& row) {
  return (row.letter ? std::string("-") + row.letter + ", --" : "    --") + row.name;
}

/// "a|b|" without the last bar.
std::string words(const OptionRow& row) {
  std::string text = row.accepted;
  if (!text.empty() && text.back() == '|') text.pop_back();
  return text;
}

[[noreturn]] void refuse(std::string_view option, std::string_view value,
                         std::string_view accepted) {
  throw UsageError("--" + std::string(option) + ": '" + std::string(value) +
                   "' is not accepted; accepted: " + std::string(accepted));
}

bool is_word_of(const std::string& list, std::string_view word) {
  return !word.empty() && word.find('|') == std::string_view::npos &&
         ("|" + list + "|").find("|" + std::string(word) + "|") != std::string::npos;
}

std::optional<std::uint64_t> parse_digits(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The smallest accepted value of a count is the number its description begins with.
unsigned parse_count(const OptionRow& row, std::string_view text) {
  const std::string_view accepted = row.accepted;
  const std::optional<std::uint64_t> value = parse_digits(text);
  if (accepted.find('|') != std::string_view::npos) {
    if (!is_word_of(words(row), text) || !value) refuse(row.name, text, words(row));
  } else {
    const std::uint64_t low = *parse_digits(accepted.substr(0, accepted.find(' ')));
    const std::uint64_t high = *parse_digits(accepted.substr(accepted.rfind(' ') + 1));
    if (!value || *value < low || *value > high) refuse(row.name, text, accepted);
  }
  return static_cast<unsigned>(*value);
}

void assign(Options& options, const OptionRow& row, std::string_view value) {
  if (const auto* size = std::get_if<std::size_t Options::*>(&row.target)) {
    options.*(*size) = parse_size(row.name, value);
  } else if (const auto* count = std::get_if<unsigned Options::*>(&row.target)) {
    options.*(*count) = parse_count(row, value);
  } else if (const auto* word = std::get_if<std::string Options::*>(&row.target)) {
    if (!is_word_of(words(row), value)) refuse(row.name, value, words(row));
    options.*(*word) = value;
  }
}

/// The row that `argument` means; the rest of it (after = or the letter) goes to `value`.
const OptionRow& find_row(std::string_view argument, std::optional<std::string>& value) {
  for (const OptionRow& row : kTable) {
    if (argument.starts_with("--")) {
      const std::size_t equals = argument.find('=');
      if (argument.substr(2, equals == std::string_view::npos ? equals : equals - 2) != row.name) {
        continue;
      }
      if (equals != std::string_view::npos) value = argument.substr(equals + 1);
      return row;
    }
    const bool alias = argument.starts_with("-a") && row.letter == 'o';
    if (argument.size() >= 2 && argument[0] == '-' && row.letter &&
        (argument[1] == row.letter || alias)) {
      if (argument.size() > 2) value = argument.substr(2);
      return row;
    }
  }
  throw UsageError("unknown option '" + std::string(argument) + "'; see --help");
}

}  // namespace

std::size_t parse_size(std::string_view option, std::string_view text) {
  std::string_view digits = text;
  unsigned shift = 0;
  if (!text.empty()) {
    constexpr std::string_view kSuffixes = "KMGkmg";
    const std::size_t at = kSuffixes.find(text.back());
    if (at != std::string_view::npos) {
      shift = 10 * (static_cast<unsigned>(at) % 3 + 1);
      digits.remove_suffix(1);
    }
  }
  const std::optional<std::uint64_t> value = parse_digits(digits);
  if (!value || *value == 0 || *value > (std::numeric_limits<std::size_t>::max() >> shift)) {
    refuse(option, text, kSizeValues);
  }
  return static_cast<std::size_t>(*value) << shift;
}

Options parse_options(unsigned groups, const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::optional<std::string> value;
    const OptionRow& row = find_row(arguments[i], value);
    if (!(row.group & (groups | kCommon))) {
      throw UsageError("this program has no option --" + std::string(row.name) + "; see --help");
    }
    if (is_flag(row)) {
      if (value) refuse(row.name, *value, "no value");
      options.*std::get<bool Options::*>(row.target) = true;
      continue;
    }
    if (!value) {
      if (i + 1 == arguments.size()) {
        throw UsageError("--" + std::string(row.name) + " needs a value: " + words(row));
      }
      value = arguments[++i];
    }
    assign(options, row, *value);
  }
  if (options.min_size > options.max_size && options.max_size != 0) {
    throw UsageError("--min_size: " + std::to_string(options.min_size) +
                     " is more than --max_size: " + std::to_string(options.max_size));
  }
  return options;
}

std::string help_text(std::string_view program, std::string_view summary, unsigned groups) {
  std::string text = std::string(program) + ": " + std::string(summary) +
                     "\nRun it under mpirun or srun, or with --pes.\n\n";
  for (const OptionRow& row : kTable) {
    if (!(row.group & (groups | kCommon)) || !*row.help) continue;
    std::string line = "  " + shown_name(row);
    line.resize(std::max<std::size_t>(line.size() + 2, 28), ' ');
    text += line + row.help + "\n";
    if (!is_flag(row)) text += std::string(30, ' ') + words(row) + "\n";
  }
  return text;
}

void apply_defaults(Options& options, const Options& defaults) {
  const bool max_given = options.max_size != 0;
  for (const OptionRow& row : kTable) {
    if (const auto* size = std::get_if<std::size_t Options::*>(&row.target)) {
      if (options.*(*size) == 0) options.*(*size) = defaults.*(*size);
    } else if (const auto* count = std::get_if<unsigned Options::*>(&row.target)) {
      if (options.*(*count) == 0) options.*(*count) = defaults.*(*count);
    } else if (const auto* word = std::get_if<std::string Options::*>(&row.target)) {
      if ((options.*(*word)).empty()) options.*(*word) = defaults.*(*word);
    }
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

const DataType* find_type(std::string_view name) {
  for (const DataType& type : kTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

}  // namespace perftest

#include "host/base/config.h"

#include "host/base/error.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <mutex>
#include <optional>
#include <string_view>

namespace gshmem {
namespace {

constexpr std::string_view kPrefix = "GSHMEM_";
constexpr std::string_view kTheirPrefix = "NVSHMEM_";
constexpr std::string_view kTestPrefix = "GSHMEM_TEST_";
// The limit is far above any sensible wait, and far below the value at which nanoseconds exceed 63
// bits (9.2e9 s).
constexpr double kMaxSeconds = 1e9;

enum class Kind { kBytes, kInt, kSeconds, kBool, kString, kChoice };

/// One line of config.def.
struct Variable {
  Kind kind;
  const char* name;
  const char* default_value;
  const char* help;
  int min, max;            // for kInt
  std::string_view names;  // for kChoice
  bool is_same;            // must be the same on all PEs
  void (*set)(Config& config, const Variable& variable, std::string_view text);
  std::uint64_t (*number)(const Config& config);
};

/// Is it a choice of on and off, and perhaps more?
bool is_switch(const Variable& v) {
  return v.kind == Kind::kChoice && v.names.find("kOn") != std::string_view::npos;
}

std::string accepted(const Variable& v) {
  switch (v.kind) {
    case Kind::kBytes:
      return "a size in bytes (a number or 0x hex, with an optional K, M, G or T)";
    case Kind::kInt:
      return strprintf("an integer from %d to %d", v.min, v.max);
    case Kind::kSeconds:
      return "seconds (a number >= 0; 0 = never)";
    case Kind::kBool:
      return "one of 0 1 yes no true false on off";
    case Kind::kString:
      return "any text";
    case Kind::kChoice: {
      std::string words = "one of";
      for (std::size_t i = 0; !choice_word(v.names, i).empty(); ++i) {
        words += " " + choice_word(v.names, i);
      }
      if (is_switch(v)) words += "; 1, yes and true are on, and 0, no and false off";
      return words;
    }
  }
  return {};
}

[[noreturn]] void bad_value(const Variable& v, std::string_view text, const char* why = "") {
  constexpr std::size_t kShown = 200;
  std::string shown(text.substr(0, kShown));
  if (text.size() > kShown) shown += "...";
  throw Error(GSHMEMX_ERROR_CONFIG,
              std::string(v.name) + "=\"" + shown + "\": expected " + accepted(v) + why);
}

// This does not depend on the locale, on purpose: programs call setlocale, and tolower would follow
// it.
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr std::string_view kUnits = "kmgt";

/// Removes the end of the unit from "32MB" and "32MiB".
std::string_view without_byte(std::string_view text) {
  for (const std::string_view byte : {"ib", "b"}) {
    if (text.size() <= byte.size()) continue;
    const std::size_t end = text.size() - byte.size();
    const bool has_unit = kUnits.find(lower(text[end - 1])) != std::string_view::npos;
    if (has_unit && same_word(text.substr(end), byte)) return text.substr(0, end);
  }
  return text;
}

/// The text, split into a number and a unit: "1.5G" has whole "1", fraction ".5" and shift 30.
struct SizeText {
  std::string_view whole, fraction;
  int base = 10;
  int shift = 0;
};

SizeText split_size(std::string_view text) {
  SizeText size;
  text = without_byte(text);
  if (!text.empty()) {
    const std::size_t unit = kUnits.find(lower(text.back()));
    if (unit != std::string_view::npos) {
      size.shift = 10 * (static_cast<int>(unit) + 1);
      text.remove_suffix(1);
    }
  }
  if (same_word(text.substr(0, 2), "0x")) {
    size.base = 16;
    size.whole = text.substr(2);
  } else {
    const std::size_t dot = std::min(text.find('.'), text.size());
    size.whole = text.substr(0, dot);
    size.fraction = text.substr(dot);
    if (size.whole.empty() && !size.fraction.empty()) size.whole = "0";  // for ".5m"
  }
  return size;
}

/// Returns the bytes that a fraction of a unit adds, rounded up as in OpenSHMEM 1.5, section 8:
/// "3.1M" is 3250586. Returns nothing when `fraction` is not a dot and digits.
std::optional<std::uint64_t> fraction_bytes(std::string_view fraction, int shift) {
  if (fraction.empty()) return 0;
  const std::string_view digits = fraction.substr(1);
  if (digits.empty() || !std::ranges::all_of(digits, is_digit)) return {};
  double value = 0;
  const char* const end = fraction.data() + fraction.size();
  const auto [stop, error] = std::from_chars(fraction.data(), end, value);
  // A value out of range can only be a fraction that is too small for a double.
  if (error == std::errc::result_out_of_range) value = std::numeric_limits<double>::min();
  if (stop != end) return {};
  return static_cast<std::uint64_t>(std::ceil(std::ldexp(value, shift)));
}

std::uint64_t parse_bytes(const Variable& v, std::string_view text) {
  const SizeText size = split_size(text);
  const char* const end = size.whole.data() + size.whole.size();
  std::uint64_t whole = 0;
  // For unsigned types from_chars accepts no sign, space or prefix, so it accepts digits only.
  const auto [stop, error] = std::from_chars(size.whole.data(), end, whole, size.base);
  const std::optional<std::uint64_t> fraction = fraction_bytes(size.fraction, size.shift);
  if (error == std::errc::invalid_argument || stop != end || !fraction) bad_value(v, text);
  const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() >> size.shift;
  const bool too_large =
      error == std::errc::result_out_of_range || whole > room ||
      (whole << size.shift) > std::numeric_limits<std::uint64_t>::max() - *fraction;
  if (too_large) bad_value(v, text, "; it does not fit in 64 bits");
  return (whole << size.shift) + *fraction;
}

int parse_int(const Variable& v, std::string_view text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < v.min || value > v.max) bad_value(v, text);
  return value;
}

double parse_seconds(const Variable& v, std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  // The sign is checked instead of < 0: "-0" and "-1e-999" are as wrong as "-1".
  if (error == std::errc::invalid_argument || stop != end || std::isnan(value) ||
      text.front() == '-')
    bad_value(v, text);
  if (error == std::errc::result_out_of_range) bad_value(v, text, "; it is out of range");
  if (value > kMaxSeconds) bad_value(v, text, "; it is more than 1e9");
  return value;
}

bool parse_bool(const Variable& v, std::string_view text) {
  for (const char* word : {"1", "yes", "true", "on"})
    if (same_word(text, word)) return true;
  for (const char* word : {"0", "no", "false", "off"})
    if (same_word(text, word)) return false;
  bad_value(v, text);
}

/// Translates the words of a boolean variable for a choice that has on and off.
std::string_view as_switch(const Variable& v, std::string_view text) {
  if (!is_switch(v)) return text;
  for (const char* word : {"1", "yes", "true"})
    if (same_word(text, word)) return "on";
  for (const char* word : {"0", "no", "false"})
    if (same_word(text, word)) return "off";
  return text;
}

std::size_t parse_choice(const Variable& v, std::string_view given) {
  const std::string_view text = as_switch(v, given);
  std::size_t index = 0;
  for (; !same_word(text, choice_word(v.names, index)); ++index) {
    if (choice_word(v.names, index).empty()) bad_value(v, given);
  }
  if (text.empty()) bad_value(v, given);
  return index;
}

/// Returns `number` in the form in which the variable is written.
std::string shown(const Variable& v, std::uint64_t number) {
  if (v.kind == Kind::kChoice) return choice_word(v.names, number);
  if (v.kind == Kind::kBytes) return size_text(number);
  return std::to_string(number);
}

// clang-format off
enum { OWN = 0, SAME = 1 };
#define GSHMEM_VARIABLE(kind, name, same, def, min, max, names, help, set, number)                        \
  Variable{kind, "GSHMEM_" #name, def, help, min, max, names, same == SAME,                               \
           []([[maybe_unused]] Config& c, [[maybe_unused]] const Variable& v, std::string_view text) { set; }, \
           []([[maybe_unused]] const Config& c) { return static_cast<std::uint64_t>(number); }},
#define GSHMEM_BYTES(field, name, same, def, help) \
  GSHMEM_VARIABLE(Kind::kBytes, name, same, def, 0, 0, "", help, c.field = parse_bytes(v, text), c.field)
#define GSHMEM_INT(field, name, same, def, min, max, help) \
  GSHMEM_VARIABLE(Kind::kInt, name, same, def, min, max, "", help, c.field = parse_int(v, text), c.field)
#define GSHMEM_BOOL(field, name, same, def, help) \
  GSHMEM_VARIABLE(Kind::kBool, name, same, def, 0, 0, "", help, c.field = parse_bool(v, text), c.field)
#define GSHMEM_CHOICE(field, Type, name, same, def, help)                               \
  GSHMEM_VARIABLE(Kind::kChoice, name, same, def, 0, 0, choices_of(Type{}).names, help, \
                  c.field = choices_of(Type{}).values[parse_choice(v, text)], choice_index(c.field))
#define GSHMEM_SECONDS(field, name, def, help) \
  GSHMEM_VARIABLE(Kind::kSeconds, name, OWN, def, 0, 0, "", help, c.field = parse_seconds(v, text), 0)
#define GSHMEM_STRING(field, name, def, help) \
  GSHMEM_VARIABLE(Kind::kString, name, OWN, def, 0, 0, "", help, c.field = text, 0)
constexpr Variable kVariables[] = {
#include "host/base/config.def"
};
#undef GSHMEM_VARIABLE
// clang-format on

const char* lookup_env(const char* name, void*) { return env_lookup(name); }

/// A variable of NVSHMEM that sets a variable of gshmem (nvshmem_variables.def).
struct Twin {
  const char *theirs, *ours;
  std::string_view words;
};
constexpr Twin kTwins[] = {
#define GSHMEM_TWIN(theirs, ours, words) {"NVSHMEM_" #theirs, "GSHMEM_" #ours, words},
#include "host/base/nvshmem_variables.def"
};

/// A variable of NVSHMEM that has no effect, with what a user of gshmem can look at instead.
struct NoTwin {
  std::string_view theirs;
  const char* see;
};
constexpr NoTwin kNoTwins[] = {
#define GSHMEM_NO_TWIN(theirs, see) {"NVSHMEM_" #theirs, see},
#include "host/base/nvshmem_variables.def"
};
/// Names after "NVSHMEM_" or "GSHMEM_" that container images and build systems set for themselves.
constexpr std::string_view kPlaces[] = {"HOME",    "DIR",         "ROOT",        "PREFIX",
                                        "PATH",    "INSTALL_DIR", "INCLUDE_DIR", "LIB_DIR",
                                        "VERSION", "SRC_DIR",     "BUILD_DIR",   "INSTALL_PREFIX"};

/// Translates `text` of NVSHMEM's variable into the text of ours; returns nothing where ours has no
/// such value.
std::optional<std::string> translated(const Twin& twin, const Variable& v, std::string_view text) {
  std::string ours(text);
  for (std::string_view words = twin.words; !words.empty();) {
    const std::string_view row = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(words.size(), row.size() + 1));
    const std::size_t equals = row.find('=');
    if (same_word(row.substr(0, equals), text)) {
      ours = row.substr(equals + 1);
      break;
    }
    if (words.empty()) return {};
  }
  try {
    Config scratch;
    v.set(scratch, v, ours);
  } catch (const Error&) {
    return {};
  }
  return ours;
}

/// Returns the text of a variable, or null where it is not set. Compose files and job scripts leave
/// variables empty, which counts as not set.
const char* text_of(const char* name, Config::Lookup lookup, void* context) {
  const char* const text = lookup(name, context);
  return text != nullptr && *text != 0 ? text : nullptr;
}

/// The value of a variable and the name by which it was set.
struct Setting {
  const char* name;
  std::string text;
};
std::optional<Setting> setting_of(const Variable& v, Config::Lookup lookup, void* context) {
  if (const char* text = text_of(v.name, lookup, context)) return Setting{v.name, text};
  for (const Twin& twin : kTwins) {
    if (v.name != std::string_view(twin.ours)) continue;
    const char* const text = text_of(twin.theirs, lookup, context);
    if (text == nullptr) continue;
    if (auto ours = translated(twin, v, text); ours) return Setting{twin.theirs, *std::move(ours)};
    // An invalid size is an error in both specifications.
    if (v.kind == Kind::kBytes) return Setting{twin.theirs, text};
  }
  return {};
}

/// Sets `v` from a setting. Errors show the name by which it was set.
void set_by(const Setting& setting, const Variable& v, Config& config) {
  Variable named = v;
  named.name = setting.name;
  named.set(config, named, setting.text);
}

/// Returns the edit distance of two words: insert, delete, replace, or swap two neighbours (optimal
/// string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t differ = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + differ});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b.at(j - 2) && a.at(i - 2) == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

/// Returns the name in `rows` for which `name` is probably a misspelling. At most a third of the
/// letters after the prefix may be edited, and one edit is always allowed. Returns null when there
/// is no such name.
template <class Rows, class Name>
const char* nearest_name(std::string_view name, std::string_view prefix, const Rows& rows,
                         Name name_of) {
  std::string upper(name.substr(prefix.size()));
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  const char* best = nullptr;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const auto& row : rows) {
    const std::string_view known = std::string_view(row.*name_of).substr(prefix.size());
    const std::size_t limit = std::max<std::size_t>(1, known.size() / 3);
    const std::size_t distance = edit_distance(upper, known);
    if (distance > limit || distance >= best_distance) continue;
    best = row.*name_of;
    best_distance = distance;
  }
  return best;
}

template <class Rows, class Name>
bool is_known(std::string_view name, const Rows& rows, Name name_of) {
  return std::ranges::find(rows, name, [&](const auto& row) {
           return std::string_view(row.*name_of);
         }) != std::end(rows);
}

bool is_place(std::string_view name, std::string_view prefix) {
  return std::ranges::find(kPlaces, name.substr(prefix.size())) != std::end(kPlaces);
}

/// Is `name` a variable of NVSHMEM's library that has no effect here?
bool lacks_twin(std::string_view name) {
  if (!name.starts_with(kTheirPrefix) || is_known(name, kTwins, &Twin::theirs)) return false;
  return !is_place(name, kTheirPrefix);
}

std::vector<std::string> names_of_environ() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

}  // namespace

Config Config::from(Lookup lookup, void* context, std::optional<Error>* bad) {
  Config config;
  for (const Variable& v : kVariables) {
    const std::optional<Setting> setting = setting_of(v, lookup, context);
    try {
      set_by(setting.value_or(Setting{v.name, v.default_value}), v, config);
    } catch (const Error& error) {
      if (!bad) throw;
      if (!*bad) *bad = error;
      v.set(config, v, v.default_value);
    }
  }
  return config;
}

Config Config::from_env(std::optional<Error>* bad) { return from(lookup_env, nullptr, bad); }

std::vector<std::uint64_t> config_same_values(const Config& config) {
  std::vector<std::uint64_t> values;
  for (const Variable& v : kVariables) {
    if (v.is_same) values.push_back(v.number(config));
  }
  return values;
}

void config_require_same(const std::vector<std::uint64_t>& all) {
  const auto count = static_cast<std::size_t>(
      std::ranges::count_if(kVariables, [](const Variable& v) { return v.is_same; }));
  std::size_t at = 0;
  for (const Variable& v : kVariables) {
    if (!v.is_same) continue;
    for (std::size_t pe = 1; pe * count < all.size(); ++pe) {
      const std::uint64_t first = all[at], other = all[pe * count + at];
      require(first == other, GSHMEMX_ERROR_SYMMETRY, [&] {
        return strprintf("%s is %s on PE 0 and %s on PE %zu; set it the same on all PEs", v.name,
                         shown(v, first).c_str(), shown(v, other).c_str(), pe);
      });
    }
    ++at;
  }
}

const char* env_lookup(const char* name) noexcept { return std::getenv(name); }
void env_set_default(const char* name, const std::string& value) noexcept {
  ::setenv(name, value.c_str(), 0);
}

/// The value is not printed, since the output of gshmem-info may be pasted into a bug report.
constexpr std::string_view kSecretName = "GSHMEM_UID_SECRET";

std::vector<ConfigEntry> config_entries(Config::Lookup lookup, void* context) {
  std::vector<ConfigEntry> entries;
  for (const Variable& v : kVariables) {
    const std::optional<Setting> setting = setting_of(v, lookup, context);
    const bool hidden = setting && !setting->text.empty() && v.name == kSecretName;
    entries.push_back({.name = v.name,
                       .value = hidden    ? "(hidden)"
                                : setting ? setting->text
                                          : v.default_value,
                       .default_value = v.default_value,
                       .accepted = accepted(v),
                       .help = v.help,
                       .set_by = setting ? setting->name : "",
                       .same_on_all_pes = v.is_same});
  }
  return entries;
}

std::vector<ConfigEntry> config_entries_from_env() { return config_entries(lookup_env, nullptr); }

std::vector<std::string> config_unknown_names(const std::vector<std::string>& environ_names) {
  std::vector<std::string> messages;
  for (const std::string& name : environ_names) {
    const bool is_ours = name.starts_with(kPrefix) && !name.starts_with(kTestPrefix);
    if (!is_ours || is_known(name, kVariables, &Variable::name) || is_place(name, kPrefix))
      continue;
    const char* meant = nearest_name(name, kPrefix, kVariables, &Variable::name);
    messages.push_back(name + " is not a variable of gshmem; " +
                       (meant != nullptr ? "did you mean " + std::string(meant) + "?"
                                         : "gshmem-info lists those it has"));
  }
  return messages;
}

std::vector<std::string> config_unused_twins(Config::Lookup lookup, void* context) {
  std::vector<std::string> messages;
  for (const Twin& twin : kTwins) {
    const char* const text = text_of(twin.theirs, lookup, context);
    const auto v = std::ranges::find(kVariables, std::string_view(twin.ours), &Variable::name);
    if (text == nullptr || text_of(twin.ours, lookup, context) != nullptr) continue;
    if (v->kind != Kind::kBytes && !translated(twin, *v, text))
      messages.push_back(strprintf("%s=\"%.200s\" is ignored: %s accepts %s", twin.theirs, text,
                                   twin.ours, accepted(*v).c_str()));
  }
  return messages;
}

std::string config_names_without_twin(const std::vector<std::string>& environ_names) {
  std::string names, advice;
  for (const std::string& name : environ_names) {
    if (!lacks_twin(name)) continue;
    const auto row = std::ranges::find(kNoTwins, std::string_view(name), &NoTwin::theirs);
    const char* const see = row != std::end(kNoTwins) ? row->see : "";
    const char* const meant = row != std::end(kNoTwins)
                                  ? nullptr
                                  : nearest_name(name, kTheirPrefix, kTwins, &Twin::theirs);
    names += (names.empty() ? "" : ", ") + name;
    if (meant != nullptr) advice += "; did you mean " + std::string(meant) + "?";
    if (*see != 0) advice += "; for " + name + " see " + see;
  }
  return names.empty() ? "" : names + ": no counterpart in gshmem, changes nothing" + advice;
}

std::string config_set_through(std::string_view theirs) {
  for (const Twin& twin : kTwins)
    if (twin.theirs == theirs) return twin.ours;
  return "";
}

std::vector<std::string> config_warnings_from_env() {
  const std::vector<std::string> names = names_of_environ();
  std::vector<std::string> messages = config_unknown_names(names);
  std::ranges::move(config_unused_twins(lookup_env, nullptr), std::back_inserter(messages));
  if (std::string all = config_names_without_twin(names); !all.empty())
    messages.push_back(std::move(all));
  return messages;
}

std::uint64_t config_warnings_hash(const std::vector<std::string>& messages) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const std::string& message : messages)
    for (const char c : message + '\n')
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

void config_warn() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const std::string& message : config_warnings_from_env())
      GSHMEM_WARN("%s", message.c_str());
  });
}

std::string config_set_by(std::string_view name) {
  const auto v = std::ranges::find(kVariables, name, &Variable::name);
  if (v == std::end(kVariables)) return {};
  const std::optional<Setting> setting = setting_of(*v, lookup_env, nullptr);
  return setting ? setting->name : "";
}

std::string config_note_on(std::string_view line) {
  for (const Twin& twin : kTwins) {
    const std::string_view ours = twin.ours;
    const std::size_t at = line.find(ours);
    if (at == std::string_view::npos) continue;
    const char next = at + ours.size() < line.size() ? line[at + ours.size()] : ' ';
    const bool is_longer = next == '_' || (next >= 'A' && next <= 'Z');
    if (is_longer || line.find(twin.theirs) != std::string_view::npos) continue;
    if (config_set_by(ours) == twin.theirs)
      return " (" + std::string(ours) + " is set by " + twin.theirs + ")";
  }
  return {};
}

}  // namespace gshmem

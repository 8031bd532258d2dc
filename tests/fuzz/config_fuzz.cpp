// Fuzzes the configuration parser. An input is "N<value>": byte 0 selects a variable, the rest is
// its value; the value is also tried as the tail of a GSHMEM_ name. An accepted value must obey the
// table and mean the same when written in another form. A refused one must be a
// GSHMEMX_ERROR_CONFIG that names the variable and what it accepts.
#include "host/base/config.h"
#include "host/base/error.h"

#include <strings.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>

namespace gshmem {
namespace {

struct Setting {
  const char* name;
  const char* value;
};

const char* find_setting(const char* name, void* context) {
  const auto* setting = static_cast<const Setting*>(context);
  return std::strcmp(name, setting->name) == 0 ? setting->value : nullptr;
}

void demand(bool ok, const char* what, const char* name, const std::string& text) {
  if (ok) return;
  std::fprintf(stderr, "config_fuzz: %s: %s=\"%s\"\n", what, name, text.c_str());
  std::abort();
}

std::optional<Config> parse(const char* name, const std::string& text) {
  Setting setting{name, text.c_str()};
  try {
    return Config::from(find_setting, &setting);
  } catch (const Error& error) {
    const std::string what = error.what();
    demand(error.code() == GSHMEMX_ERROR_CONFIG, "wrong code", name, text);
    demand(what.starts_with(std::string(name) + "=\""), "variable not named", name, text);
    demand(what.find("\": expected ") != std::string::npos, "accepted not named", name, text);
    return std::nullopt;
  }
}

bool only_digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// Returns the value of digits and an optional unit, by the C library and the compiler's overflow
/// check; no value if it does not fit.
std::optional<std::uint64_t> digits_and_unit(const std::string& digits, int shift) {
  errno = 0;
  const std::uint64_t count = std::strtoull(digits.c_str(), nullptr, 10);
  std::uint64_t bytes = 0;
  if (errno != 0 || __builtin_mul_overflow(count, std::uint64_t{1} << shift, &bytes)) return {};
  return bytes;
}

void check_bytes(std::uint64_t Config::*field, const char* name, const std::string& text,
                 const std::optional<Config>& config) {
  const std::string units = "KMGTkmgt";
  const std::size_t unit = text.empty() ? std::string::npos : units.find(text.back());
  const bool has_unit = unit != std::string::npos;
  const std::string digits = has_unit ? text.substr(0, text.size() - 1) : text;
  if (only_digits(digits)) {
    const int shift = has_unit ? 10 * (static_cast<int>(unit % 4) + 1) : 0;
    const std::optional<std::uint64_t> expected = digits_and_unit(digits, shift);
    demand(config.has_value() == expected.has_value(), "size misjudged", name, text);
    demand(!config || (*config).*field == *expected, "size misread", name, text);
  }
  if (!config) return;
  const auto value = static_cast<unsigned long long>((*config).*field);
  for (const char* format : {"%llu", "0x%llx", "0X%llX"}) {
    char again[32];
    std::snprintf(again, sizeof(again), format, value);
    const std::optional<Config> second = parse(name, again);
    demand(second && (*second).*field == value, "does not survive a round trip", name, text);
  }
}

void check_int(int Config::*field, long min, long max, const char* name, const std::string& text,
               const std::optional<Config>& config) {
  errno = 0;
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  const std::size_t digits_at = text.starts_with('-') ? 1 : 0;
  const bool good = only_digits(text.substr(std::min(digits_at, text.size()))) && errno == 0 &&
                    value >= min && value <= max;
  demand(config.has_value() == good, "integer misjudged", name, text);
  demand(!config || (*config).*field == value, "integer misread", name, text);
}

void check_seconds(double Config::*field, const char* name, const std::string& text,
                   const std::optional<Config>& config) {
  if (!config) return;
  const double value = (*config).*field;
  demand(std::isfinite(value) && value >= 0 && !std::signbit(value) && value <= 1e9,
         "seconds out of range", name, text);
  demand(value == std::strtod(text.c_str(), nullptr), "seconds misread", name, text);
}

void check_bool(bool Config::*, const char* name, const std::string& text,
                const std::optional<Config>& config) {
  demand(!config || text.size() <= 5, "not a boolean", name, text);
}

void check_string(std::string Config::*field, const char* name, const std::string& text,
                  const std::optional<Config>& config) {
  demand(config && (*config).*field == text, "string changed", name, text);
}

template <class T>
void check_choice(T Config::*field, const char* name, const std::string& text,
                  const std::optional<Config>& config) {
  if (!config) return;
  const std::string word = word_of((*config).*field);
  const auto is_one_of = [&](std::initializer_list<const char*> others) {
    return std::ranges::any_of(others,
                               [&](const char* one) { return strcasecmp(one, text.c_str()) == 0; });
  };
  const bool as_switch = (word == "on" && is_one_of({"1", "yes", "true"})) ||
                         (word == "off" && is_one_of({"0", "no", "false"}));
  demand(!word.empty() && (as_switch || is_one_of({word.c_str()})), "choice misread", name, text);
}

using Check = void (*)(const std::string& text);

// clang-format off
constexpr Check kChecks[] = {
#define GSHMEM_FUZZ(name, check, ...)                                             \
  [](const std::string& text) {                                                   \
    const std::optional<Config> config = parse("GSHMEM_" #name, text);            \
    demand(config || !text.empty(), "empty is not unset", "GSHMEM_" #name, text); \
    if (text.empty()) return;                                                     \
    check(__VA_ARGS__, "GSHMEM_" #name, text, config);                            \
  },
#define GSHMEM_BYTES(field, name, ...) GSHMEM_FUZZ(name, check_bytes, &Config::field)
#define GSHMEM_INT(field, name, same, def, min, max, help) \
  GSHMEM_FUZZ(name, check_int, &Config::field, min, max)
#define GSHMEM_SECONDS(field, name, ...) GSHMEM_FUZZ(name, check_seconds, &Config::field)
#define GSHMEM_BOOL(field, name, ...) GSHMEM_FUZZ(name, check_bool, &Config::field)
#define GSHMEM_STRING(field, name, ...) GSHMEM_FUZZ(name, check_string, &Config::field)
#define GSHMEM_CHOICE(field, Type, name, ...) GSHMEM_FUZZ(name, check_choice, &Config::field)
#include "host/base/config.def"
#undef GSHMEM_FUZZ
};
// clang-format on

void check_unknown_name(const std::string& text) {
  for (const std::string& message : config_unknown_names({"GSHMEM_" + text, text})) {
    demand(message.find(" is not a variable of gshmem; ") != std::string::npos, "bad message",
           "name", text);
  }
}

}  // namespace
}  // namespace gshmem

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // An environment variable has no '\0'.
  const std::string rest(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string text = rest.substr(0, rest.find('\0'));
  // Letters, so that corpus files stay readable: 'A' is the first variable of config.def.
  const std::size_t count = std::size(gshmem::kChecks);
  gshmem::kChecks[(data[0] + count - 'A' % count) % count](text);
  gshmem::check_unknown_name(text);
  return 0;
}

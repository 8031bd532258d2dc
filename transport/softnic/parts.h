// Parsers for the parts of GSHNIC_* variables. Included by their readers.
#pragma once

#include "host/base/error.h"
#include "transport/softnic/engine.h"

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace gshmem::soft {

[[noreturn]] inline void bad_part(const char* variable, std::string_view part,
                                  const std::string& expected) {
  throw EngineError{0x3, strprintf("%s: \"%.*s\": expected %s", variable,
                                   static_cast<int>(part.size()), part.data(), expected.c_str())};
}

/// Calls `use` with each part between any of `separators`; parts may be empty.
template <class F>
void for_each_part(std::string_view text, const char* separators, F use) {
  for (;;) {
    const auto end = text.find_first_of(separators);
    use(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

/// Parses all of `text` as a decimal number.
template <class T>
[[nodiscard]] std::optional<T> number_of(std::string_view text) {
  T value{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc{} || end != last) return std::nullopt;
  return value;
}

}  // namespace gshmem::soft

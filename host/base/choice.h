// Enumerations whose values users write as words: `kIpv4` is "ipv4". Included by config.h and
// log.h. Invariant: the words are derived from the enumerators, so that the two cannot differ.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace gshmem {

template <class T, std::size_t N>
struct Choices {
  std::string_view names;  ///< the enumerators: "kAny, kIpv4, kIpv6"
  std::array<T, N> values;
};
template <class T, std::size_t N>
Choices(std::string_view, std::array<T, N>) -> Choices<T, N>;

/// Returns the word of the enumerator at `index` of `names`, or an empty text after the last one.
[[nodiscard]] inline std::string choice_word(std::string_view names, std::size_t index) {
  std::size_t begin = 0;
  for (; begin < names.size() && index > 0; --index)
    begin = names.find_first_of('k', names.find(',', begin));
  if (begin >= names.size()) return {};
  std::string word(names.substr(begin + 1, names.find(',', begin) - begin - 1));
  // This does not depend on the locale. Programs call setlocale, and tolower would follow it.
  for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return word;
}

template <class T>
[[nodiscard]] std::size_t choice_index(T value) {
  const auto& values = choices_of(T{}).values;
  return static_cast<std::size_t>(std::ranges::find(values, value) - values.begin());
}

template <class T>
[[nodiscard]] std::string word_of(T value) {
  return choice_word(choices_of(T{}).names, choice_index(value));
}

}  // namespace gshmem

/// Defines the words of the enumeration `Type`: they are derived from the enumerators given.
#define GSHMEM_WORDS(Type, ...)                                           \
  [[maybe_unused]] constexpr auto choices_of(Type) {                      \
    using enum Type;                                                      \
    return ::gshmem::Choices{#__VA_ARGS__, std::to_array({__VA_ARGS__})}; \
  }
/// Defines an enumeration with words.
#define GSHMEM_CHOICE_TYPE(Type, ...) \
  enum class Type { __VA_ARGS__ };    \
  GSHMEM_WORDS(Type, __VA_ARGS__)

// Writes JSON text (RFC 8259): nesting, commas, escapes. Included by gshmem-info. Invariant:
// whatever strings it is given, the output is valid UTF-8; what is not becomes U+FFFD.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gshmem::info {

/// `text` between quotes, with escapes.
[[nodiscard]] std::string json_quoted(std::string_view text);

class JsonWriter {
 public:
  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  /// The name of the next value; in objects only.
  void key(std::string_view name);

  void string(std::string_view value) { scalar(json_quoted(value)); }
  void number(std::int64_t value) { scalar(std::to_string(value)); }
  void number(std::uint64_t value) { scalar(std::to_string(value)); }
  void number(int value) { number(std::int64_t{value}); }
  void boolean(bool value) { scalar(value ? "true" : "false"); }
  void null() { scalar("null"); }

  /// A key with a string value, which most are.
  void member(std::string_view name, std::string_view value) {
    key(name);
    string(value);
  }

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  void open(char bracket);
  void close(char bracket);
  void scalar(const std::string& text);
  void before_value();
  void new_line();

  std::string text_;
  std::vector<bool> has_members_;  ///< one per open bracket
  bool after_key_ = false;
};

}  // namespace gshmem::info

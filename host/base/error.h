// Errors of the host library. An Error has a code of the public status table, a text, and the place
// where it was detected first. It is thrown by value at the first detector, turned into a status at
// the C edge (host/runtime/api), and never swallowed. Invariant: `what()` alone is enough to act
// on.
#pragma once

#include <gshmem/status.h>

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gshmem {

/// A source location. Use it as a trailing parameter `Where where = {}`. It uses default arguments
/// of the constructor, because g++, clang 14 and nvcc evaluate those at the caller; clang 14 lacks
/// std::source_location.
struct Where {
  const char* file;
  int line;
  constexpr Where(const char* f = __builtin_FILE(), int l = __builtin_LINE()) : file(f), line(l) {}
};

class Error : public std::runtime_error {
 public:
  Error(gshmemx_status code, const std::string& what, Where where = {})
      : std::runtime_error(what), code_(code), where_(where) {}
  [[nodiscard]] gshmemx_status code() const noexcept { return code_; }
  [[nodiscard]] Where where() const noexcept { return where_; }

 private:
  gshmemx_status code_;
  Where where_;
};

/// An error of a call that the specification allows, such as a call with GSHMEM_TEAM_INVALID. It is
/// logged as a warning.
class Answer final : public Error {
 public:
  // The front end of nvcc 13.0 ends with an internal error at `using Error::Error`.
  Answer(gshmemx_status code, const std::string& what, Where where = {})
      : Error(code, what, where) {}
};

/// Returns the text of a status code. A code without an entry yields "unknown status".
[[nodiscard]] const char* status_text(int code) noexcept;

/// Throws Error{code, what} unless `ok`. `what` may be a function that makes the text, for checks
/// that run often or once per PE.
inline void require(bool ok, gshmemx_status code, const std::string& what, Where where = {}) {
  if (!ok) throw Error(code, what, where);
}
template <std::invocable What>
void require(bool ok, gshmemx_status code, const What& what, Where where = {}) {
  if (!ok) throw Error(code, what(), where);
}

/// For calls that return -1 and set errno: returns `result`, or throws GSHMEMX_ERROR_SYSTEM with
/// "<call>: <strerror>".
long check_errno(long result, std::string_view call, Where where = {});

/// Returns for example "1073741824 bytes (1 GiB)"; without the unit below 64 KiB.
[[nodiscard]] std::string size_text(std::uint64_t bytes);
/// Returns for example "1 GiB", "1.5 MiB", "17 bytes".
[[nodiscard]] std::string size_in_units(std::uint64_t bytes);

/// Formats like printf into a std::string.
[[gnu::format(printf, 1, 2)]] std::string strprintf(const char* format, ...);

}  // namespace gshmem

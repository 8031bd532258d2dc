// Errors of the host library: a code of the public status table, what happened, and where it was
// detected first. Thrown by value at the first detector, turned into a status at the C edge
// (host/runtime/api), never swallowed. Invariant: `what()` alone is enough to act on.
#pragma once

#include <gshmem/status.h>

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gshmem {

/// A source location. Use as a trailing parameter `Where where = {}`.
/// Constructor default arguments, because they are evaluated at the caller on g++, clang 14 and
/// nvcc; std::source_location is missing on clang 14.
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

/// Text of a status code; "unknown status N" has no entry and yields "unknown status".
[[nodiscard]] const char* status_text(int code) noexcept;

/// Throws Error{code, what} unless `ok`. `what` may be a function that makes the text: for what
/// runs once a PE, or often.
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

/// "1073741824 bytes (1 GiB)"; without the unit below 64 KiB.
[[nodiscard]] std::string size_text(std::uint64_t bytes);
/// "1 GiB", "1.5 MiB", "17 bytes".
[[nodiscard]] std::string size_in_units(std::uint64_t bytes);

/// printf into a std::string.
[[gnu::format(printf, 1, 2)]] std::string strprintf(const char* format, ...);

}  // namespace gshmem

#include "host/base/error.h"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace gshmem {

const char* status_text(int code) noexcept {
  switch (code) {
#define GSHMEM_STATUS_CASE(name, value, text) \
  case value:                                 \
    return text;
    GSHMEM_STATUS_TABLE(GSHMEM_STATUS_CASE)
#undef GSHMEM_STATUS_CASE
    default:
      return "unknown status";
  }
}

long check_errno(long result, std::string_view call, Where where) {
  if (result != -1) return result;
  const int code = errno;
  char buffer[128];
  // This is the GNU strerror_r: unlike strerror it is thread-safe in every libc that has it.
  std::string what(call);
  what.append(": ").append(strerror_r(code, buffer, sizeof(buffer)));
  throw Error(GSHMEMX_ERROR_SYSTEM, what, where);
}

std::string size_in_units(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024; ++unit) value /= 1024;  // 64 bits end at 16 EiB
  return strprintf("%.4g %s", value, kUnits[unit]);
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kBig = 64 << 10;
  const std::string text = std::to_string(bytes) + " bytes";
  return bytes < kBig ? text : text + " (" + size_in_units(bytes) + ")";
}

std::string strprintf(const char* format, ...) {
  va_list args;
  va_start(args, format);
  va_list again;
  va_copy(again, args);
  const int size = std::vsnprintf(nullptr, 0, format, args);
  va_end(args);
  std::string text(static_cast<std::size_t>(std::max(size, 0)), '\0');
  // vsnprintf writes '\0' to data()[size()], which is allowed.
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

}  // namespace gshmem

// Logging to stderr (or GSHMEM_LOG_FILE) with a level, a prefix with the PE, and a rate limit. Line
// format: "gshmem[PE] LEVEL: text". If a line names a variable that was set by NVSHMEM's name, that
// name is added at its end (config_note_on). Logging is thread-safe. A line is written with one
// write(2), so that lines of several PEs never mix. Therefore a line has at most PIPE_BUF bytes;
// longer text is truncated and ends in "...". Level and destination are process-wide. They are the
// only state that outlives a runtime, because errors before init must be reportable.
#pragma once

#include "host/base/choice.h"

#include <mutex>
#include <string>

namespace gshmem {

GSHMEM_CHOICE_TYPE(LogLevel, kNone, kError, kWarn, kInfo, kDebug)

/// Sets level and destination. An empty `file` means stderr; "%h" is the host name, "%p" the
/// process id, "%%" a percent sign. Lines are appended to the file. Errors: GSHMEMX_ERROR_CONFIG
/// when the name has another "%" or the file cannot be opened; level and destination are then
/// unchanged.
void log_configure(LogLevel level, const std::string& file);
[[nodiscard]] bool log_enabled(LogLevel level) noexcept;

/// Sets the PE that is shown in lines logged by this thread; -1 = no PE ("gshmem[-]").
void log_set_pe(int pe) noexcept;

/// Writes one line, to stderr if the file takes none; control characters in the text become spaces.
/// Does nothing when `level` is not enabled. Keeps errno, so that it may be called between a failed
/// call and its check.
[[gnu::format(printf, 2, 3)]] void log_line(LogLevel level, const char* format, ...) noexcept;
/// Writes one line, with "(N similar lines dropped)" at its end when `dropped` > 0.
[[gnu::format(printf, 3, 4)]] void log_line_after_drops(LogLevel level, int dropped,
                                                        const char* format, ...) noexcept;

/// Writes an error line, to stderr as well if lines go to a file: the reason why the process ends.
[[gnu::format(printf, 1, 2)]] void log_last_line(const char* format, ...) noexcept;

/// Returns the milliseconds of the clock that RateLimit is used with; it is monotonic and has an
/// arbitrary origin.
[[nodiscard]] long log_now_ms() noexcept;

/// Lets at most `burst` lines through, and then one per second with "(N similar lines dropped)".
/// There is one static instance per call site. Threads: any.
class RateLimit {
 public:
  constexpr explicit RateLimit(int burst) : tokens_(burst) {}
  /// Returns true when the caller may log now. Then `*dropped` is the number of lines refused since
  /// the last one.
  [[nodiscard]] bool allow(long now_ms, int* dropped) noexcept;

 private:
  std::mutex mutex_;
  int tokens_;
  int dropped_ = 0;
  long next_ms_ = 0;  ///< when no tokens are left: the time of the next line
};
inline constexpr int kLogBurst = 8;

}  // namespace gshmem

#define GSHMEM_LOG(level, ...)                                                \
  do {                                                                        \
    if (::gshmem::log_enabled(level)) ::gshmem::log_line(level, __VA_ARGS__); \
  } while (0)
#define GSHMEM_ERROR(...) GSHMEM_LOG(::gshmem::LogLevel::kError, __VA_ARGS__)
#define GSHMEM_WARN(...) GSHMEM_LOG(::gshmem::LogLevel::kWarn, __VA_ARGS__)
#define GSHMEM_INFO(...) GSHMEM_LOG(::gshmem::LogLevel::kInfo, __VA_ARGS__)
#define GSHMEM_DEBUG(...) GSHMEM_LOG(::gshmem::LogLevel::kDebug, __VA_ARGS__)

/// For lines that a loop or a peer can repeat without bound: a few are logged, and then one per
/// second.
#define GSHMEM_LOG_LIMITED(level, ...)                                      \
  do {                                                                      \
    if (::gshmem::log_enabled(level)) {                                     \
      static ::gshmem::RateLimit gshmem_limit(::gshmem::kLogBurst);         \
      int gshmem_dropped = 0;                                               \
      if (gshmem_limit.allow(::gshmem::log_now_ms(), &gshmem_dropped))      \
        ::gshmem::log_line_after_drops(level, gshmem_dropped, __VA_ARGS__); \
    }                                                                       \
  } while (0)

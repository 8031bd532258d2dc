// Logging to stderr (or GSHMEM_LOG_FILE): level, PE prefix, rate limit. Line format:
// "gshmem[PE] LEVEL: text". A line that names a variable which NVSHMEM's twin has set names that
// one at its end (config_note_on). Thread-safe; a line is written with one write(2) so that lines
// of several PEs never mix, which is why a line is at most PIPE_BUF bytes: longer text is cut and
// ends in "...". Level and destination are process-wide: they are the one piece of state that
// outlives a runtime, because errors before init must be reportable.
#pragma once

#include "host/base/choice.h"

#include <mutex>
#include <string>

namespace gshmem {

GSHMEM_CHOICE_TYPE(LogLevel, kNone, kError, kWarn, kInfo, kDebug)

/// Sets level and destination; `file` empty = stderr, "%h" host name, "%p" process id, "%%" a
/// percent sign. The file is appended to. Errors: GSHMEMX_ERROR_CONFIG when the name has another
/// "%" or the file cannot be opened; level and destination are then unchanged.
void log_configure(LogLevel level, const std::string& file);
[[nodiscard]] bool log_enabled(LogLevel level) noexcept;

/// The PE shown before lines logged by this thread; -1 = none ("gshmem[-]").
void log_set_pe(int pe) noexcept;

/// Writes one line; control characters in the text become spaces. Nothing when `level` is not
/// enabled. Keeps errno, so that it may stand between a failed call and its check.
[[gnu::format(printf, 2, 3)]] void log_line(LogLevel level, const char* format, ...) noexcept;
/// Writes one line, with "(N similar lines dropped)" at its end when `dropped` > 0.
[[gnu::format(printf, 3, 4)]] void log_line_after_drops(LogLevel level, int dropped,
                                                        const char* format, ...) noexcept;

/// Milliseconds of the clock that RateLimit is used with: monotonic, of no particular origin.
[[nodiscard]] long log_now_ms() noexcept;

/// Lets at most `burst` lines through, then one per second with "(N similar lines dropped)".
/// One static instance per call site. Threads: any.
class RateLimit {
 public:
  constexpr explicit RateLimit(int burst) : tokens_(burst) {}
  /// True when the caller may log now; `*dropped` is how many were refused since the last one, and
  /// is written only then.
  [[nodiscard]] bool allow(long now_ms, int* dropped) noexcept;

 private:
  std::mutex mutex_;
  int tokens_;
  int dropped_ = 0;
  long next_ms_ = 0;  ///< with no tokens left: when the next line may pass
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

/// For lines that a loop or a peer can repeat without bound: some of them, then one per second.
#define GSHMEM_LOG_LIMITED(level, ...)                                      \
  do {                                                                      \
    if (::gshmem::log_enabled(level)) {                                     \
      static ::gshmem::RateLimit gshmem_limit(::gshmem::kLogBurst);         \
      int gshmem_dropped = 0;                                               \
      if (gshmem_limit.allow(::gshmem::log_now_ms(), &gshmem_dropped))      \
        ::gshmem::log_line_after_drops(level, gshmem_dropped, __VA_ARGS__); \
    }                                                                       \
  } while (0)

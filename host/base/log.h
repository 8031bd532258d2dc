// Logging to stderr (or GSHMEM_LOG_FILE): level, PE prefix, rate limit. Line format:
// "gshmem[PE] LEVEL: text". Thread-safe; a line is written with one write(2) so that lines of
// several PEs never mix. The level is process-wide: it is the one piece of state that outlives a
// runtime, because errors before init must be reportable.
#pragma once

#include <string>

namespace gshmem {

enum class LogLevel { kNone, kError, kWarn, kInfo, kDebug };

/// Sets level and destination; `file` empty = stderr, "%h" host name, "%p" process id.
void log_configure(LogLevel level, const std::string& file);
[[nodiscard]] bool log_enabled(LogLevel level) noexcept;

/// The PE shown in front of lines logged by this thread; -1 = none ("gshmem[-]").
void log_set_pe(int pe) noexcept;

[[gnu::format(printf, 2, 3)]] void log_line(LogLevel level, const char* format, ...);

/// Lets at most `burst` lines through, then one per second with "(N similar lines dropped)".
/// One static instance per call site.
class RateLimit {
 public:
  explicit RateLimit(int burst) : tokens_(burst) {}
  /// True when the caller may log now; `*dropped` is how many were refused since the last one.
  [[nodiscard]] bool allow(long now_ms, int* dropped) noexcept;

 private:
  int tokens_;
  int dropped_ = 0;
  long next_ms_ = 0;
};

}  // namespace gshmem

#define GSHMEM_LOG(level, ...)                                                              \
  do {                                                                                      \
    if (::gshmem::log_enabled(level)) ::gshmem::log_line(level, __VA_ARGS__);               \
  } while (0)
#define GSHMEM_ERROR(...) GSHMEM_LOG(::gshmem::LogLevel::kError, __VA_ARGS__)
#define GSHMEM_WARN(...) GSHMEM_LOG(::gshmem::LogLevel::kWarn, __VA_ARGS__)
#define GSHMEM_INFO(...) GSHMEM_LOG(::gshmem::LogLevel::kInfo, __VA_ARGS__)
#define GSHMEM_DEBUG(...) GSHMEM_LOG(::gshmem::LogLevel::kDebug, __VA_ARGS__)

#include "host/base/log.h"

#include "host/base/at_fork.h"
#include "host/base/config.h"
#include "host/base/error.h"
#include "host/base/fd.h"
#include "host/base/system_call.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <new>
#include <string_view>

namespace gshmem {
namespace {

constexpr std::size_t kLineBytes = 4096;
static_assert(kLineBytes <= PIPE_BUF, "longer writes to a pipe may be split and mixed");

constexpr const char* kLabels[] = {"", "ERROR", "WARN", "INFO", "DEBUG"};

// Accesses are relaxed: the variables guard no other data. A line logged while another thread
// reconfigures goes to the old or to the new destination.
std::atomic<LogLevel> g_level{LogLevel::kWarn};
std::atomic<int> g_fd{STDERR_FILENO};
constinit std::mutex g_mutex;  ///< taken by log_configure
/// Runs when the library is loaded. If the first use did it, a fork could happen meanwhile, and its
/// child would wait for a thread that it does not have.
[[maybe_unused]] const bool held_over_forks = (hold_over_forks(g_mutex), true);
thread_local int t_pe = -1;

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  check_errno(gethostname(name, sizeof(name)), "gethostname");
  return name;
}

[[noreturn]] void bad_file(const std::string& file, const std::string& why) {
  throw Error(GSHMEMX_ERROR_CONFIG, "GSHMEM_LOG_FILE=\"" + file + "\": " + why);
}

std::string expand_name(const std::string& file) {
  std::string name;
  for (std::size_t i = 0; i < file.size(); ++i) {
    if (file[i] != '%') {
      name += file[i];
      continue;
    }
    switch (file[++i]) {  // a '\0' follows the last character
      case 'h':
        name += host_name();
        break;
      case 'p':
        name += std::to_string(getpid());
        break;
      case '%':
        name += '%';
        break;
      default:
        bad_file(file,
                 "expected a file name in which %h is the host, %p the process id and %% a %");
    }
  }
  return name;
}

// Lets the one descriptor of the log file refer to `name`. The number stays the same from the first
// file on. dup3 replaces its file in one step, so that a thread inside write(2) needs no lock and
// never uses a closed or reused descriptor.
int open_file(const std::string& file) {
  static int file_fd = -1;  // guarded by g_mutex
  const std::string name = expand_name(file);
  Fd opened(open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!opened) {
    try {
      check_errno(-1, "open(" + name + ")");
    } catch (const Error& error) {
      bad_file(file, error.what());
    }
  }
  if (file_fd < 0) {
    file_fd = opened.release();
  } else {
    check_errno(dup3(opened.get(), file_fd, O_CLOEXEC), "dup3");
  }
  return file_fd;
}

void write_line(const char* line, std::size_t size, bool to_stderr) noexcept {
  const int fd = g_fd.load(std::memory_order_relaxed);
  const bool written = uninterrupted([&] { return write(fd, line, size); }) >= 0;
  if (fd == STDERR_FILENO || (written && !to_stderr)) return;
  // A failure of this cannot be reported anywhere.
  (void)uninterrupted([&] { return write(STDERR_FILENO, line, size); });
}

// Appends to line[used..limit) and returns the new end, at most `limit`.
std::size_t append(char* line, std::size_t used, std::size_t limit, const char* format,
                   va_list args) noexcept {
  const int size = std::vsnprintf(line + used, limit - used, format, args);
  if (size < 0) return used;
  const std::size_t wanted = used + static_cast<std::size_t>(size);
  if (wanted < limit) return wanted;
  std::fill_n(line + limit - 4, 3, '.');  // truncated: vsnprintf filled up to limit - 1 and a '\0'
  return limit - 1;
}

std::string note_on(std::string_view text) noexcept {
  try {
    return config_note_on(text);
  } catch (const std::bad_alloc&) {
    return {};
  }
}

void log_va(LogLevel level, int dropped, bool to_stderr, const char* format,
            va_list args) noexcept {
  const int saved_errno = errno;
  char line[kLineBytes];
  char pe[16] = "-";
  if (t_pe >= 0) std::snprintf(pe, sizeof(pe), "%d", t_pe);
  char tail[48] = "";
  if (dropped > 0) std::snprintf(tail, sizeof(tail), " (%d similar lines dropped)", dropped);
  const std::size_t tail_size = std::string_view(tail).size();

  const int prefix =
      std::snprintf(line, sizeof(line), "gshmem[%s] %s: ", pe, kLabels[static_cast<int>(level)]);
  // The tail and the newline always fit: only the text is truncated.
  std::size_t size =
      append(line, static_cast<std::size_t>(prefix), kLineBytes - tail_size, format, args);
  std::replace_if(
      line, line + size, [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  const std::string note = note_on({line + prefix, line + size});
  if (size + note.size() + tail_size < kLineBytes) size += note.copy(line + size, note.size());
  size = static_cast<std::size_t>(std::copy_n(tail, tail_size, line + size) - line);
  line[size++] = '\n';
  write_line(line, size, to_stderr);
  errno = saved_errno;
}

}  // namespace

void log_configure(LogLevel level, const std::string& file) {
  const std::lock_guard lock(g_mutex);
  const int fd = file.empty() ? STDERR_FILENO : open_file(file);
  g_fd.store(fd, std::memory_order_relaxed);
  g_level.store(level, std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) noexcept {
  return level != LogLevel::kNone && level <= g_level.load(std::memory_order_relaxed);
}

void log_set_pe(int pe) noexcept { t_pe = pe; }

void log_line(LogLevel level, const char* format, ...) noexcept {
  if (!log_enabled(level)) return;
  va_list args;
  va_start(args, format);
  log_va(level, 0, false, format, args);
  va_end(args);
}

void log_line_after_drops(LogLevel level, int dropped, const char* format, ...) noexcept {
  if (!log_enabled(level)) return;
  va_list args;
  va_start(args, format);
  log_va(level, dropped, false, format, args);
  va_end(args);
}

void log_last_line(const char* format, ...) noexcept {
  if (!log_enabled(LogLevel::kError)) return;
  va_list args;
  va_start(args, format);
  log_va(LogLevel::kError, 0, true, format, args);
  va_end(args);
}

long log_now_ms() noexcept {
  using std::chrono::milliseconds;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<long>(std::chrono::duration_cast<milliseconds>(now).count());
}

bool RateLimit::allow(long now_ms, int* dropped) noexcept {
  const std::lock_guard lock(mutex_);
  if (tokens_ > 0) {
    --tokens_;
  } else if (now_ms < next_ms_) {
    ++dropped_;
    return false;
  }
  next_ms_ = now_ms + 1000;
  *dropped = dropped_;
  dropped_ = 0;
  return true;
}

}  // namespace gshmem

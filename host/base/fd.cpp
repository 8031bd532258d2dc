#include "host/base/fd.h"

#include "host/base/at_fork.h"
#include "host/base/error.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace gshmem {

namespace {

/// Moves a descriptor that has the number of one of the standard streams. A program that was
/// started without one of them (`>&-`) writes to that number all the same: its output would be a
/// message of the job.
int beyond_standard_streams(int fd) noexcept {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (moved < 0) return fd;
  ::close(fd);
  return moved;
}

}  // namespace

Fd::Fd(int fd) noexcept : fd_(beyond_standard_streams(fd)), forks_(fork_count()) {
  close_in_children(fd_);
}

// The descriptor leaves the table before it is closed: another thread may open the same number at
// once.
Fd::~Fd() {
  if (const int fd = release(); fd >= 0) ::close(fd);
}

int Fd::get() const noexcept { return fd_ >= 0 && forks_ == fork_count() ? fd_ : -1; }

int Fd::release() noexcept {
  const int fd = get();
  keep_in_children(fd);
  fd_ = -1;
  return fd;
}

std::size_t descriptor_limit() noexcept {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<std::size_t>(limit.rlim_cur);
}

std::string descriptor_limit_text() {
  return strprintf("this process may have %zu descriptors open (ulimit -n)", descriptor_limit());
}

std::string descriptors_used_up_text() {
  const Fd another(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (another || (errno != EMFILE && errno != ENFILE)) return {};
  return "; no descriptor is left: " + descriptor_limit_text();
}

bool raise_descriptor_limit(std::size_t count) noexcept {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= count || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

std::size_t stranger_limit() noexcept {
  return std::clamp<std::size_t>(descriptor_limit() / 8, 1, 64);
}

}  // namespace gshmem

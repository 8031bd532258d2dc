#include "host/base/fd.h"

#include "host/base/at_fork.h"

#include <unistd.h>

namespace gshmem {

Fd::Fd(int fd) noexcept : fd_(fd), forks_(fork_count()) {
  if (fd >= 0) close_in_children(fd);
}

// Another thread may open the number at once: it leaves the table first.
Fd::~Fd() {
  if (const int fd = release(); fd >= 0) ::close(fd);
}

int Fd::get() const noexcept { return fd_ >= 0 && forks_ == fork_count() ? fd_ : -1; }

int Fd::release() noexcept {
  const int fd = get();
  if (fd >= 0) keep_in_children(fd);
  fd_ = -1;
  return fd;
}

}  // namespace gshmem

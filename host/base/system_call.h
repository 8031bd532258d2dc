// System calls that a signal ends early (EINTR, signal(7)): handlers of the program may lack
// SA_RESTART. No caller of these sees it.
#pragma once

#include <poll.h>

#include <cerrno>
#include <span>

namespace gshmem {

/// What `call` returns, made again as long as a signal interrupts it. errno is that of the last
/// one.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

/// What poll(2) is to look for at a descriptor; one below 0 is none.
[[nodiscard]] inline pollfd polled(int fd, short events) { return {fd, events, 0}; }

/// poll(2) once. All revents are 0 when the time is over (-1 = no end), or a signal came first.
/// Returns the number of others. Errors: GSHMEMX_ERROR_SYSTEM.
int poll_once(std::span<pollfd> entries, int milliseconds);

}  // namespace gshmem

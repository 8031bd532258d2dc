// System calls that a signal can interrupt (EINTR, signal(7)): handlers of the program may lack
// SA_RESTART. Callers of these functions do not see it.
#pragma once

#include <poll.h>

#include <cerrno>
#include <span>

namespace gshmem {

/// Repeats `call` as long as a signal interrupts it, and returns its result. errno is that of the
/// last call.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

/// Returns the entry of poll(2) for a descriptor; a negative one is ignored.
[[nodiscard]] inline pollfd polled(int fd, short events) { return {fd, events, 0}; }

/// Calls poll(2) once. All revents are 0 when the timeout passed (-1 = no timeout), or a signal
/// came first. Returns the number of ready entries. Errors: GSHMEMX_ERROR_SYSTEM.
int poll_once(std::span<pollfd> entries, int milliseconds);

}  // namespace gshmem

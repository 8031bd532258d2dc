#include "host/base/thread.h"

#include "host/base/error.h"

#include <time.h>
#include <unistd.h>

#include <cstdio>

namespace gshmem {

void throw_no_thread(const std::system_error& error) {
  const char* const limits =
      error.code() == std::errc::resource_unavailable_try_again
          ? "; RLIMIT_NPROC (ulimit -u) or pids.max of the cgroup allows no more: raise it"
          : "";
  throw Error(GSHMEMX_ERROR_SYSTEM, "cannot start a thread: " + error.code().message() + limits);
}

void end_process(int status) noexcept {
  try {
    std::thread flusher = start_thread([] { (void)std::fflush(nullptr); });
    timespec until{};
    (void)::clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    (void)::pthread_timedjoin_np(flusher.native_handle(), nullptr, &until);
    ::_exit(status);
  } catch (const Error&) {
    ::_exit(status);
  }
}

}  // namespace gshmem

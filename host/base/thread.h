// Threads of the library's own. Included by whatever starts one. Invariant: they take none of the
// signals that are sent to the process, which are for the application's threads: a handler would
// run where the application does not expect it, and a signal that all its threads hold back, to
// take it by sigwait(3), would end the process.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <system_error>
#include <thread>
#include <utility>

namespace gshmem {

/// While it lives, the calling thread holds signals back, and so do threads that it starts, for
/// ever. Not those that a thread brings upon itself: a crash is the application's handler's to
/// report.
class SignalsHeldBack {
 public:
  SignalsHeldBack() noexcept {
    sigset_t signals;
    ::sigfillset(&signals);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      ::sigdelset(&signals, own);
    ::pthread_sigmask(SIG_SETMASK, &signals, &before_);
  }
  ~SignalsHeldBack() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeldBack(const SignalsHeldBack&) = delete;

 private:
  sigset_t before_;
};

template <class Body>
[[nodiscard]] std::thread start_thread(Body body) {
  const SignalsHeldBack held_back;
  return std::thread(std::move(body));
}

/// Ends the process with what its streams hold written. Threads: any. A thread of the application
/// may hold a stream's lock while it blocks, so the library waits a second for the streams at most.
[[noreturn]] inline void end_process(int status) noexcept {
  try {
    std::thread flusher = start_thread([] { (void)std::fflush(nullptr); });
    timespec until{};
    (void)::clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    (void)::pthread_timedjoin_np(flusher.native_handle(), nullptr, &until);
    ::_exit(status);
  } catch (const std::system_error&) {
    ::_exit(status);
  }
}

}  // namespace gshmem

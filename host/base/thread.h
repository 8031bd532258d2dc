// Threads of the library's own. Included by whatever starts one. Invariant: they take none of the
// signals that are sent to the process, which are for the application's threads: a handler would
// run where the application does not expect it. A signal that all its threads hold back, to take it
// by sigwait(3), would end the process.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

namespace gshmem {

[[noreturn]] void throw_no_thread(const std::system_error& error);

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

/// Errors: GSHMEMX_ERROR_SYSTEM, with the limits that allow no more threads.
template <class Body>
[[nodiscard]] std::thread start_thread(Body body) {
  const SignalsHeldBack held_back;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    throw_no_thread(error);
  }
}

/// Ends the process with what its streams hold written. Threads: any. A thread of the application
/// may hold a stream's lock while it blocks, so the library waits a second for the streams at most.
[[noreturn]] void end_process(int status) noexcept;

}  // namespace gshmem

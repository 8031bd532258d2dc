// Threads of the library. Included by all code that starts one. Invariant: they handle no signals
// that are sent to the process, which are meant for the application's threads. A handler would run
// where the application does not expect it. A signal that all threads of the application block, to
// receive it by sigwait(3), would end the process.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

namespace gshmem {

[[noreturn]] void throw_no_thread(const std::system_error& error);

/// During its lifetime the calling thread blocks signals. Threads that it starts block them for
/// ever. Signals that a thread causes itself are not blocked: the application's handler has to
/// report a crash.
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

/// Errors: GSHMEMX_ERROR_SYSTEM, which names the limits that allow no more threads.
template <class Body>
[[nodiscard]] std::thread start_thread(Body body) {
  const SignalsHeldBack held_back;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    throw_no_thread(error);
  }
}

/// Ends the process after flushing its streams. Threads: any. A thread of the application may hold
/// a stream's lock while it blocks, so the library waits at most a second for the streams.
[[noreturn]] void end_process(int status) noexcept;

}  // namespace gshmem

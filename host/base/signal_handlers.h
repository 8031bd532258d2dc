// What the application does on signals, kept from libraries that are loaded at run time. Included
// by the files that load them.
#pragma once

#include <signal.h>

#include <array>
#include <cstddef>

namespace gshmem {

/// At its end, the process does on every signal what it did at its beginning. For the loading of
/// libraries whose constructors take signals for themselves: Debian's libfabric needs
/// libinfinipath, which reports SIGINT, SIGTERM and crashes by files in the current folder.
/// Handlers that other threads set meanwhile are lost.
class SignalHandlersKept {
 public:
  SignalHandlersKept() noexcept {
    for (int signal = 1; signal < kSignals; ++signal)
      ::sigaction(signal, nullptr, &before_[static_cast<std::size_t>(signal)]);
  }
  ~SignalHandlersKept() {
    for (int signal = 1; signal < kSignals; ++signal) {
      if (signal == SIGKILL || signal == SIGSTOP) continue;
      ::sigaction(signal, &before_[static_cast<std::size_t>(signal)], nullptr);
    }
  }
  SignalHandlersKept(const SignalHandlersKept&) = delete;

 private:
  static constexpr int kSignals = 32;  ///< later ones are real-time ones, or the C library's
  std::array<struct sigaction, kSignals> before_{};
};

}  // namespace gshmem

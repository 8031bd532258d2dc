// For children that a process under test has forked without exec: tests check what they must not
// hold or do. Included by such tests, in one file of a program.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <stdexcept>

namespace gshmem::test {

/// A child sets it before it exits: it lacks the threads that would free their memory.
inline bool no_leak_check = false;

/// Keeps children alive until the test has seen what it waits for, without sleeps. The test creates
/// it before its processes, and destroys it after they have ended.
class Lifeline {
 public:
  Lifeline() {
    if (::pipe(ends_) != 0) throw std::runtime_error("pipe");
  }
  ~Lifeline() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Lifeline(const Lifeline&) = delete;

  /// For the child of a process under test: returns after the test and all those processes have
  /// closed their ends. The child's output is not waited for.
  void hold() const {
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
    ::close(nowhere);
    ::close(ends_[1]);
    char byte = 0;
    (void)!::read(ends_[0], &byte, 1);
  }
  /// Gives the calling process a child that only holds. Returns when the child runs: libraries have
  /// released their part in it by then.
  void fork_holder() const {
    int ready[2];
    if (::pipe(ready) != 0) throw std::runtime_error("pipe");
    const bool child = ::fork() == 0;
    ::close(ready[child ? 0 : 1]);
    char byte = 0;
    if (!child) {
      const bool ran = ::read(ready[0], &byte, 1) == 1;
      ::close(ready[0]);
      if (!ran) throw std::runtime_error("a forked child ended at once");
      return;
    }
    (void)!::write(ready[1], &byte, 1);
    ::close(ready[1]);
    hold();
    ::_exit(0);
  }

 private:
  int ends_[2];
};

}  // namespace gshmem::test

/// LeakSanitizer calls it (sanitizer/lsan_interface.h).
extern "C" __attribute__((used, visibility("default"))) inline int __lsan_is_turned_off() {
  return gshmem::test::no_leak_check ? 1 : 0;
}

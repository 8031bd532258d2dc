// How a process ends whose other threads go on.
#include "host/base/thread.h"

#include "tests/sanitizers/sanitizers.h"

#include <catch2/catch.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

using namespace gshmem;

namespace {

struct Ended {
  int status;
  std::size_t written;  ///< bytes, to standard output
};

/// What becomes of a child that runs `body`.
Ended in_child(const std::function<void()>& body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    (void)::dup2(ends[1], STDOUT_FILENO);
    for (const int end : ends) ::close(end);
    body();
    ::_exit(99);
  }
  ::close(ends[1]);
  std::size_t written = 0;
  std::string some(1 << 12, '\0');
  for (ssize_t got = 1; got > 0; written += static_cast<std::size_t>(std::max<ssize_t>(got, 0)))
    got = ::read(ends[0], some.data(), some.size());
  ::close(ends[0]);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, written};
}

}  // namespace

TEST_CASE("a_process_that_ends_writes_what_it_has_printed") {
  constexpr std::size_t kBytes = std::size_t{1} << 20;  // more than a pipe holds
  static std::string buffer(2 * kBytes, '\0');
  const Ended ended = in_child([] {
    (void)std::setvbuf(stdout, buffer.data(), _IOFBF, buffer.size());
    (void)std::fputs(std::string(kBytes, 'x').c_str(), stdout);
    end_process(7);
  });
  CHECK(ended.status == 7);
  CHECK(ended.written == kBytes);
}

TEST_CASE("a_process_that_gets_no_thread_ends_with_its_status") {
  if (kSanitized) return;  // they need addresses themselves
  const Ended ended = in_child([] {
    const rlimit none{1 << 20, 1 << 20};
    (void)::setrlimit(RLIMIT_AS, &none);
    end_process(7);
  });
  CHECK(ended.status == 7);
}

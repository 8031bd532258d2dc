// System calls that signals interrupt.
#include "host/base/system_call.h"

#include "host/base/error.h"
#include "host/base/fd.h"

#include <catch2/catch.hpp>

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <utility>
#include <vector>

using namespace gshmem;

namespace {

/// A call that returns these results, one after the other, and sets these numbers of errors.
struct Call {
  std::vector<std::pair<int, int>> results;
  int made = 0;
  int operator()() {
    const auto [result, error] = results.at(static_cast<std::size_t>(made++));
    errno = error;
    return result;
  }
};

}  // namespace

TEST_CASE("interrupted_calls_and_no_others_are_made_again") {
  Call call{{{-1, EINTR}, {-1, EINTR}, {7, EINTR}}};
  CHECK(uninterrupted([&] { return call(); }) == 7);
  CHECK(call.made == 3);
  Call failing{{{-1, EINTR}, {-1, EAGAIN}}};
  CHECK(uninterrupted([&] { return failing(); }) == -1);
  CHECK(errno == EAGAIN);
  CHECK(failing.made == 2);
  Call nothing{{{0, EINTR}}};
  CHECK(uninterrupted([&] { return nothing(); }) == 0);
  CHECK(nothing.made == 1);
}

TEST_CASE("a_poll_says_what_is_ready") {
  int ends[2];
  check_errno(pipe(ends), "pipe");
  const Fd out(ends[0]), in(ends[1]);
  constexpr short kOld = POLLIN | POLLERR;
  std::array<pollfd, 2> entries{{{out.get(), POLLIN, kOld}, {-1, POLLIN, kOld}}};
  const auto old = [&] {
    for (pollfd& entry : entries) entry.revents = kOld;
  };
  CHECK(poll_once(entries, 0) == 0);
  CHECK(entries[0].revents == 0);

  old();
  struct sigaction action {};
  action.sa_handler = [](int) {};  // without SA_RESTART
  check_errno(sigaction(SIGALRM, &action, nullptr), "sigaction");
  const itimerval every_10_ms{{0, 10'000}, {0, 10'000}}, never{};
  check_errno(setitimer(ITIMER_REAL, &every_10_ms, nullptr), "setitimer");
  CHECK(poll_once(entries, -1) == 0);
  check_errno(setitimer(ITIMER_REAL, &never, nullptr), "setitimer");
  CHECK(entries[0].revents == 0);
  CHECK(entries[1].revents == 0);

  old();
  CHECK(write(in.get(), "x", 1) == 1);
  CHECK(poll_once(entries, -1) == 1);
  CHECK(entries[0].revents == POLLIN);
  CHECK(entries[1].revents == 0);
}

TEST_CASE("a_poll_that_fails_says_how_many_descriptors_it_had") {
#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
  std::puts("skipped: UBSan of g++, which is built in with ASan, needs descriptors");
  return;
#endif
  rlimit before{};
  check_errno(getrlimit(RLIMIT_NOFILE, &before), "getrlimit");
  rlimit limit = before;
  limit.rlim_cur = 1;  // poll(2): EINVAL when there are more descriptors than that
  check_errno(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
  std::array<pollfd, 2> entries{};
  std::exception_ptr failure;  // looked at later: UBSan needs descriptors for that
  try {
    poll_once(entries, 0);
  } catch (...) {
    failure = std::current_exception();
  }
  check_errno(setrlimit(RLIMIT_NOFILE, &before), "setrlimit");
  REQUIRE(failure);
  CHECK_THROWS_WITH(std::rethrow_exception(failure), "poll of 2 descriptors: Invalid argument");
}

// What the child of a fork has of the library's descriptors and mutexes.
#include "host/base/at_fork.h"
#include "host/base/error.h"
#include "host/base/fd.h"
#include "host/base/shared_mapping.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

using namespace gshmem;

namespace {

int open_nothing() {
  return static_cast<int>(check_errno(::open("/dev/null", O_RDWR | O_CLOEXEC), "open"));
}
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

/// What `body` returns in a child.
template <class Body>
int in_fork(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("child_has_none_of_its_parents_descriptors") {
  std::vector<Fd> all;
  for (int i = 0; i < 200; ++i) all.emplace_back(open_nothing());
  const int high = ::fcntl(all[0].get(), F_DUPFD_CLOEXEC, 900);
  if (high >= 0) all.emplace_back(high);
  std::vector<int> numbers;
  for (const Fd& fd : all) numbers.push_back(fd.get());
  const std::uint32_t forks = fork_count();
  CHECK(in_fork([&] {
          for (const int number : numbers) {
            if (is_open(number)) return 1;
          }
          for (const Fd& fd : all) {
            if (fd || fd.get() != -1) return 2;
          }
          return fork_count() == forks + 1 ? 0 : 3;
        }) == 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].get() == numbers[i]);
    CHECK(is_open(numbers[i]));
  }
}

TEST_CASE("what_a_child_opens_by_the_same_number_is_its_own") {
  auto parents = std::make_unique<Fd>(open_nothing());
  const int number = parents->get();
  CHECK(in_fork([&] {
          const int own = open_nothing();
          if (own != number) return 1;  // the lowest that is free
          if (parents->get() != -1) return 2;
          parents.reset();
          if (!is_open(own)) return 3;
          Fd held(own);
          Fd moved(std::move(held));
          if (moved.get() != own || held) return 4;
          const int below = in_fork([&] { return moved || is_open(number) ? 1 : 0; });
          return below == 0 && is_open(own) ? 0 : 5;
        }) == 0);
}

TEST_CASE("descriptor_0_is_one_as_all_others_are") {
  CHECK(in_fork([] {
          ::close(STDIN_FILENO);
          {
            const Fd first(open_nothing());
            if (!first || first.get() != 0) return 1;
            if (in_fork([] { return is_open(0) ? 1 : 0; }) != 0 || !is_open(0)) return 2;
          }
          return is_open(0) ? 3 : 0;
        }) == 0);
}

TEST_CASE("what_was_given_up_or_was_never_held_stays_open_in_a_child") {
  Fd held(open_nothing());
  const int given_up = held.release(), never = open_nothing();
  int closed = -1;
  {
    const Fd gone(open_nothing());
    closed = gone.get();
  }
  CHECK(open_nothing() == closed);  // somebody else's by now
  CHECK(in_fork([&] { return is_open(given_up) && is_open(never) && is_open(closed) ? 0 : 1; }) ==
        0);
  // A child of a child finds what that has not held, whatever the parent had held.
  CHECK(in_fork([&] {
          (void)::dup2(never, STDIN_FILENO);
          return in_fork([] { return is_open(STDIN_FILENO) ? 0 : 1; });
        }) == 0);
  for (const int fd : {given_up, never, closed}) ::close(fd);
}

TEST_CASE("numbers_that_are_not_kept_track_of_change_nothing_about_others") {
  constexpr int kTracked =
      1 << 20;  // what the kernel gives a process, unless an administrator asks
  const int never = open_nothing();
  CHECK(in_fork([&] {
          const Fd own(open_nothing());
          for (int fd = kTracked; fd < kTracked + 64; ++fd) close_in_children(fd);
          for (int fd = kTracked; fd < kTracked + 64; ++fd) keep_in_children(fd);
          for (const int fd : {-1, -64, -1'000'000}) {
            close_in_children(fd);
            keep_in_children(fd);
          }
          const int number = own.get();
          return in_fork([&] { return !is_open(number) && is_open(never) ? 0 : 1; });
        }) == 0);
  ::close(never);
}

TEST_CASE("last_number_that_is_kept_track_of_is_closed_in_a_child") {
  CHECK(in_fork([] {
          rlimit limit{};
          ::getrlimit(RLIMIT_NOFILE, &limit);
          limit.rlim_cur = limit.rlim_max;
          ::setrlimit(RLIMIT_NOFILE, &limit);
          const int number = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 20)) - 1;
          const Fd low(open_nothing());
          const Fd last(::fcntl(low.get(), F_DUPFD_CLOEXEC, number));
          if (last.get() != number) return 1;
          return in_fork([&] { return is_open(number) ? 1 : 0; }) == 0 && is_open(number) ? 0 : 2;
        }) == 0);
}

namespace {

std::mutex guarded_mutex;
int halves[2];
int seen_in_child = -1;

}  // namespace

TEST_CASE("mutex_is_free_in_a_child_and_what_it_guards_is_whole") {
  hold_over_forks(guarded_mutex, []() noexcept { seen_in_child = halves[0] - halves[1]; });
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) {
      const std::lock_guard lock(guarded_mutex);
      ++halves[0];
      std::this_thread::yield();
      ++halves[1];
    }
  });
  for (int round = 0; round < 50; ++round) {
    CHECK(in_fork([] {
            if (seen_in_child != 0) return 1;
            return guarded_mutex.try_lock() && halves[0] == halves[1] ? 0 : 2;
          }) == 0);
  }
  CHECK(seen_in_child == -1);
  over = true;
  other.join();
}

TEST_CASE("more_mutexes_than_there_is_room_for_are_an_error") {
  CHECK(in_fork([] {  // they stay
          static std::mutex many[17];
          int held = 0;
          try {
            for (std::mutex& mutex : many) {
              hold_over_forks(mutex);
              ++held;
            }
          } catch (const Error& error) {
            return error.code() == GSHMEMX_ERROR_INTERNAL && held >= 12 ? 0 : 1;  // a few are held
          }
          return 2;
        }) == 0);
}

TEST_CASE("a_child_maps_segments_though_another_thread_was_about_it") {
  const Fd segment = make_segment("gshmem-test", 4096);
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) (void)map_shared(segment, 4096, 4096);
  });
  for (int round = 0; round < 30; ++round) {
    const int status = in_fork([] {
      ::alarm(10);  // ends what waits for a thread that the child lacks
      const Fd own = make_segment("gshmem-test", 4096);
      return map_shared(own, 4096, 4096) ? 0 : 1;
    });
    CHECK(status == 0);
    if (status != 0) break;
  }
  over = true;
  other.join();
}

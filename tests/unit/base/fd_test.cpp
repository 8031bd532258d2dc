// Tests which descriptors and mutexes of the library the child of a fork has.
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

/// Runs `body` in a child and returns its exit status.
template <class Body>
int in_fork(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a_descriptor_never_has_the_number_of_a_standard_stream") {
  const int number = GENERATE(STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO);
  const Fd saved(::fcntl(number, F_DUPFD_CLOEXEC, 100));
  ::close(number);
  const int opened = open_nothing();
  const Fd fd(opened);
  const bool is_free = !is_open(number);
  ::dup2(saved.get(), number);
  CHECK(opened == number);
  CHECK(is_free);
  CHECK(fd.get() > STDERR_FILENO);
  CHECK((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

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

TEST_CASE("a_descriptor_that_a_child_opens_with_the_same_number_is_its_own") {
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

namespace {

std::mutex guarded_mutex;
int halves[2];
int seen_in_child = -1;

}  // namespace

TEST_CASE("mutex_is_free_in_a_child_and_its_data_is_consistent") {
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

TEST_CASE("a_child_maps_segments_though_another_thread_was_mapping_one") {
  const Fd segment = make_segment("gshmem-test", 4096);
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) (void)map_shared(segment, 4096, 4096);
  });
  for (int round = 0; round < 30; ++round) {
    const int status = in_fork([] {
      ::alarm(10);  // ends a wait for a thread that the child lacks
      const Fd own = make_segment("gshmem-test", 4096);
      return map_shared(own, 4096, 4096) ? 0 : 1;
    });
    CHECK(status == 0);
    if (status != 0) break;
  }
  over = true;
  other.join();
}

// Threads that are a group on the CPU.
#include <gshmem/device/core/host_block.h>

#include <catch2/catch.hpp>

#include <thread>
#include <vector>

namespace gshmem::device {
namespace {

constexpr int kThreads = 4;
void run(const auto& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kThreads; ++rank) threads.emplace_back([&body, rank] { body(rank); });
}

}  // namespace

// What each thread says changes from meeting to meeting, and every third meeting asks nothing: an
// answer that is late or left over is wrong.
TEST_CASE("all threads of a group learn in one meeting what any of them says") {
  constexpr int kMeetings = 3000;
  const auto says = [](int rank, int meeting) { return (meeting * 7 + rank * 5) % 11 == 0; };
  HostBarrier barrier(kThreads);
  int written[kThreads] = {}, wrong[kThreads] = {};
  run([&](int rank) {
    for (int meeting = 1; meeting <= kMeetings; ++meeting) {
      written[rank] = meeting;
      bool expected = false;
      for (int other = 0; other < kThreads; ++other) expected |= says(other, meeting);
      if (meeting % 3 == 0) {
        barrier.arrive_and_wait();
      } else {
        wrong[rank] += barrier.arrive_and_any(says(rank, meeting)) != expected;
      }
      for (int other = 0; other < kThreads; ++other) wrong[rank] += written[other] != meeting;
      barrier.arrive_and_wait();  // all have read
    }
  });
  for (int rank = 0; rank < kThreads; ++rank) CHECK(wrong[rank] == 0);
}

TEST_CASE("a thread alone meets nobody") {
  HostBarrier barrier(1);
  barrier.arrive_and_wait();
  CHECK(barrier.arrive_and_any(true));
  CHECK_FALSE(barrier.arrive_and_any(false));
}

}  // namespace gshmem::device

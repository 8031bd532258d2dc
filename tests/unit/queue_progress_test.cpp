// Waits on the network path that see progress, with a clock and pauses that the test makes.
#define GSHMEM_MACHINE <tests/model/cost/machine.h>
#include "tests/unit/queue_rig.h"
#include "tests/unit/no_launch.h"

#include <catch2/catch.hpp>

namespace gshmem::device {
namespace {

constexpr std::uint64_t kBegin = 80;
constexpr unsigned kSteps = 40;

/// A queue in which others get on by an entry in two thirds of the time that a wait may take.
class SlowQueue : public QueueRig {
 public:
  explicit SlowQueue(Await what) : QueueRig(Reach::kNetwork), what_(what) {
    cursor().reserved = cursor().done = at_;
    cursor().ready = abi::PublishedWord::make(at_, 1);
    queue = this;
    waiting = {};
    waiting.between_polls = [] { queue->pass_time(); };
  }
  ~SlowQueue() { waiting = {}; }
  void stop_at(std::uint64_t entry) { last_ = entry; }
  /// Waits until kSteps entries more are complete, or published.
  [[nodiscard]] PostEnd await() {
    Wait wait;
    begin_wait(wait, &state(), &view(), "test");
    wait_for(wait, what_, kBegin + kSteps);
    const bool good = queue_await(wait);
    CHECK(good == wait.good());
    return wait.end;
  }
  [[nodiscard]] std::uint64_t at() const { return at_; }

 private:
  void pass_time() {
    constexpr unsigned kPausesOfStep = 4096;  // longer than the clock is not looked at
    if (++pauses_ % kPausesOfStep != 0) return;
    waiting.now_ns += state().timeout_ns * 2 / 3;
    if (at_ == last_) return;
    ++at_;
    if (what_ == Await::kTurn) {
      cursor().ready = abi::PublishedWord::make(at_, 1);
    } else {
      complete(static_cast<std::uint16_t>(at_ - 1));
    }
  }

  static inline SlowQueue* queue = nullptr;
  Await what_;
  std::uint64_t at_ = kBegin, last_ = ~std::uint64_t{0};
  unsigned pauses_ = 0;
};

}  // namespace

TEST_CASE("a_wait_that_sees_progress_takes_as_long_as_that") {
  for (const Await what : {Await::kDone, Await::kRoom, Await::kTurn}) {
    SlowQueue queue(what);
    CHECK(queue.await() == PostEnd::kGood);
    CHECK(queue.at() == kBegin + kSteps);
    CHECK(queue.control().stop == 0);
  }
}

TEST_CASE("a_wait_ends_when_progress_does") {
  for (const Await what : {Await::kDone, Await::kRoom, Await::kTurn}) {
    SlowQueue queue(what);
    queue.stop_at(kBegin + kSteps - 3);
    CHECK(queue.await() == PostEnd::kTooLong);
    CHECK(queue.at() == kBegin + kSteps - 3);
  }
}

TEST_CASE("a_wait_for_room_or_a_turn_knows_how_many_are_in_front") {
  for (const Await what : {Await::kRoom, Await::kTurn}) {
    SlowQueue queue(what);
    queue.stop_at(kBegin + kSteps - 7);
    CHECK(queue.await() == PostEnd::kTooLong);
    CHECK(waiting.left == 7);
  }
}

}  // namespace gshmem::device

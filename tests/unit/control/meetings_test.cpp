// Meetings of PEs that have an id in common. Letters go by a queue that the test empties, in order.
#include "host/runtime/meetings.h"

#include "host/base/error.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <thread>

using namespace gshmem;

namespace {

/// Some PEs, and a thread that brings their letters.
class World {
 public:
  /// A PE for each of the times that they wait at most, in seconds; 0 = for ever.
  explicit World(const std::vector<double>& timeouts) {
    const int n = static_cast<int>(timeouts.size());
    for (int pe = 0; pe < n; ++pe) {
      pes_.push_back(std::make_unique<Meetings>(
          Meetings::Outside{.my_pe = pe,
                            .n_pes = n,
                            .timeout = timeouts[static_cast<std::size_t>(pe)],
                            .send =
                                [this, pe](int to, net::ByteView letter) {
                                  post({pe, to, letter});
                                },
                            .require_running = [] {}}));
    }
    carrier_ = std::thread([this] { carry(); });
  }
  ~World() {
    post({});
    carrier_.join();
  }
  Meetings& operator[](std::size_t pe) { return *pes_[pe]; }
  /// What PE `pe` hears: the PEs that came, or the text of the error.
  std::future<std::string> meet(std::size_t pe, const Meetings::Place& place) {
    return std::async(std::launch::async, [this, pe, place]() -> std::string {
      try {
        std::string came;
        for (const std::int32_t member : pes_[pe]->meet("call", place, 0, {}).pes)
          came += std::to_string(member);
        return came;
      } catch (const Error& error) {
        return error.what();
      }
    });
  }

 private:
  struct Letter {
    Letter() = default;
    Letter(int sender, int receiver, net::ByteView content)
        : from(sender), to(receiver), bytes(content.begin(), content.end()) {}
    int from = -1, to = -1;  ///< of nobody: the end
    net::Bytes bytes;
  };
  void post(Letter letter) {
    const std::lock_guard lock(mutex_);
    letters_.push_back(std::move(letter));
    came_.notify_one();
  }
  void carry() {
    for (;;) {
      std::unique_lock lock(mutex_);
      came_.wait(lock, [this] { return !letters_.empty(); });
      const Letter letter = std::move(letters_.front());
      letters_.pop_front();
      lock.unlock();
      if (letter.to == -1) return;
      pes_[static_cast<std::size_t>(letter.to)]->take(letter.from, letter.bytes);
    }
  }
  std::vector<std::unique_ptr<Meetings>> pes_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Letter> letters_;
  std::thread carrier_;
};

}  // namespace

TEST_CASE("all_members_of_a_meeting_hear_who_came") {
  World world({0, 0, 0});
  const std::uint64_t id = world[1].make_id();  // PE 1 is no member
  auto first = world.meet(2, {id, 2, 0}), second = world.meet(0, {id, 2, 1});
  CHECK(first.get() == "20");
  CHECK(second.get() == "20");
}

TEST_CASE("who_gives_up_on_a_meeting_ends_it_for_the_others") {
  World world({0, 0.1, 0});
  const std::uint64_t id = world[0].make_id();
  auto waits = world.meet(0, {id, 3, 0}), gives_up = world.meet(1, {id, 3, 1});
  CHECK(gives_up.get() == "call: not all 3 members have come within GSHMEM_TIMEOUT=0.1 s");
  CHECK(waits.get() ==
        "call: failed on PE 1: call: not all 3 members have come within GSHMEM_TIMEOUT=0.1 s");
  // Who comes later hears it at once.
  CHECK(world.meet(2, {id, 3, 2}).get().find("failed on PE 1") != std::string::npos);
}

TEST_CASE("an_id_that_was_used_before_it_was_made_is_as_good_as_others") {
  World world({0, 0});
  const std::uint64_t next = world[0].make_id() + 1;
  CHECK(world.meet(1, {next, 1, 0}).get() ==
        "call: unique id 0x100000002 was made by no PE of this job");
  world[1].refuse(next, "nothing");
  CHECK(world.meet(1, {next, 1, 0}).get().find("was made by no PE") != std::string::npos);
  REQUIRE(world[0].make_id() == next);
  CHECK(world.meet(1, {next, 1, 0}).get() == "1");
}

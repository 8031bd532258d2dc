// Tests how PEs that share only an id synchronize. Their messages pass through a queue, which the
// test delivers in order.
#include "host/runtime/team_rendezvous.h"

#include "host/base/error.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <thread>

using namespace gshmem;

namespace {

/// Some PEs, and a thread that delivers their messages.
class World {
 public:
  /// Makes one PE per time limit, in seconds; 0 = no limit.
  explicit World(const std::vector<double>& timeouts) {
    const int n = static_cast<int>(timeouts.size());
    for (int pe = 0; pe < n; ++pe) {
      pes_.push_back(std::make_unique<TeamRendezvous>(
          TeamRendezvous::Outside{.my_pe = pe,
                                  .n_pes = n,
                                  .timeout = timeouts[static_cast<std::size_t>(pe)],
                                  .send =
                                      [this, pe](int to, net::ByteView message) {
                                        post({pe, to, message});
                                      },
                                  .require_running =
                                      [this, pe] {
                                        looked = true;
                                        if (stopped == pe)
                                          throw Error(GSHMEMX_ERROR_PEER_FAILED, "a fault");
                                      }}));
    }
    carrier_ = std::thread([this] { carry(); });
  }
  ~World() {
    post({});
    carrier_.join();
  }
  TeamRendezvous& operator[](std::size_t pe) { return *pes_[pe]; }
  /// Returns what PE `pe` receives: the list of members, or the text of the error.
  std::future<std::string> exchange(std::size_t pe, const TeamRendezvous::Place& place,
                                    std::uint32_t round = 0) {
    return std::async(std::launch::async, [this, pe, place, round]() -> std::string {
      try {
        std::string came;
        for (const std::int32_t member : pes_[pe]->exchange("call", place, round, {}).pes)
          came += std::to_string(member);
        return came;
      } catch (const Error& error) {
        return error.what();
      }
    });
  }

  std::atomic<int> stopped{-1};     ///< PE
  std::atomic<bool> looked{false};  ///< a waiting thread has checked whether its PE still runs

 private:
  struct Message {
    Message() = default;
    Message(int sender, int receiver, net::ByteView content)
        : from(sender), to(receiver), bytes(content.begin(), content.end()) {}
    int from = -1, to = -1;  ///< -1: the last message
    net::Bytes bytes;
  };
  void post(Message message) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
    came_.notify_one();
  }
  void carry() {
    for (;;) {
      std::unique_lock lock(mutex_);
      came_.wait(lock, [this] { return !messages_.empty(); });
      const Message message = std::move(messages_.front());
      messages_.pop_front();
      lock.unlock();
      if (message.to == -1) return;
      pes_[static_cast<std::size_t>(message.to)]->take(message.from, message.bytes);
    }
  }
  std::vector<std::unique_ptr<TeamRendezvous>> pes_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Message> messages_;
  std::thread carrier_;
};

}  // namespace

TEST_CASE("all_members_receive_the_list_of_members") {
  World world({0, 0, 0});
  const std::uint64_t id = world[1].make_id();  // PE 1 is no member
  auto first = world.exchange(2, {id, 2, 0}), second = world.exchange(0, {id, 2, 1});
  CHECK(first.get() == "20");
  CHECK(second.get() == "20");
}

TEST_CASE("members_receive_the_combined_words") {
  World world({0, 0});
  const std::uint64_t id = world[0].make_id();
  auto other = std::async(std::launch::async, [&] {
    return world[1].exchange("call", {id, 2, 0}, 3, {6, 5, 1});
  });
  const TeamRendezvous::Outcome outcome = world[0].exchange("call", {id, 2, 1}, 3, {3, 7, 2});
  CHECK(outcome.pes == std::vector<std::int32_t>{1, 0});
  CHECK(outcome.words == std::vector<std::uint32_t>{2, 5, 0});
  CHECK(other.get().words == outcome.words);
}

TEST_CASE("a_waiting_member_is_notified_at_once") {
  World world({0, 0});
  // Takes the shortest time: a thread that is not notified polls every 20 ms, and it has just
  // polled.
  std::chrono::duration<double> least(1);
  for (int i = 0; i < 10; ++i) {
    const std::uint64_t id = world[0].make_id();
    world.looked = false;
    auto waits = world.exchange(0, {id, 2, 0});
    while (!world.looked) std::this_thread::yield();
    const auto begin = std::chrono::steady_clock::now();
    CHECK(world[1].exchange("call", {id, 2, 1}, 0, {}).pes == std::vector<std::int32_t>{0, 1});
    CHECK(waits.get() == "01");
    least =
        std::min<std::chrono::duration<double>>(least, std::chrono::steady_clock::now() - begin);
  }
  CHECK(least.count() < 0.01);
}

TEST_CASE("an_impossible_team_is_an_error_on_all_members") {
  World world({0, 0, 0});
  const auto id = [&] { return world[0].make_id(); };
  for (const int size : {0, 4})
    CHECK(world.exchange(1, {id(), size, 0}).get() ==
          "call: argument npes = " + std::to_string(size) + " of PE 1 is out of range [1, 3]");
  for (const int index : {-1, 2})
    CHECK(world.exchange(1, {id(), 2, index}).get() ==
          "call: argument pe_idx_in_team = " + std::to_string(index) +
              " of PE 1 is out of range [0, 1]");
  CHECK(world.exchange(1, {0x400000001, 2, 0}).get() ==
        "call: unique id 0x400000001 was made by no PE of this job");
  const auto both = [&](const TeamRendezvous::Place& first, const TeamRendezvous::Place& second) {
    auto other = world.exchange(1, first);
    // Gives its message time to arrive first.
    CHECK(other.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
    const std::string said = world.exchange(2, second).get();
    CHECK(other.get() == said);
    return said;
  };
  const std::uint64_t sizes = id(), places = id();
  CHECK(both({sizes, 3, 0}, {sizes, 2, 1}) ==
        "call: argument npes is 2 on PE 2 and 3 on another member");
  CHECK(both({places, 3, 1}, {places, 3, 1}) ==
        "call: argument pe_idx_in_team = 1 is that of PE 1 and of PE 2");
}

TEST_CASE("rounds_of_an_id_are_independent_and_may_be_repeated") {
  World world({0, 0});
  const std::uint64_t id = world[0].make_id();
  for (int again = 0; again < 2; ++again) {
    auto fifth = world.exchange(0, {id, 2, 0}, 5), sixth = world.exchange(0, {id, 2, 0}, 6);
    CHECK(world.exchange(1, {id, 2, 1}, 6).get() == "01");
    CHECK(sixth.get() == "01");
    CHECK(fifth.wait_for(std::chrono::milliseconds(30)) == std::future_status::timeout);
    CHECK(world.exchange(1, {id, 2, 1}, 5).get() == "01");
    CHECK(fifth.get() == "01");
  }
  // A refusal ends all rounds of the id.
  auto fifth = world.exchange(0, {id, 2, 0}, 5), sixth = world.exchange(0, {id, 2, 0}, 6);
  for (auto* waits : {&fifth, &sixth})
    CHECK(waits->wait_for(std::chrono::milliseconds(30)) == std::future_status::timeout);
  world[1].refuse(id, "no");
  for (auto* waits : {&fifth, &sixth}) CHECK(waits->get() == "call: failed on PE 1: no");
}

TEST_CASE("a_fault_of_a_member_ends_the_wait_of_the_others") {
  World world({0, 0, 0});
  const std::uint64_t id = world[1].make_id();
  auto stops = world.exchange(0, {id, 3, 0}), waits = world.exchange(1, {id, 3, 1});
  for (auto* each : {&stops, &waits})
    CHECK(each->wait_for(std::chrono::milliseconds(30)) == std::future_status::timeout);
  world.stopped = 0;
  CHECK(stops.get() == "a fault");
  CHECK(waits.get() == "call: failed on PE 0: a fault");
}

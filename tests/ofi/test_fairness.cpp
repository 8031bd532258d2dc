// Queues share what an engine has: nobody waits while others are served again and again, and to
// wait for a place is no sign that a peer is gone.
#include "tests/ofi/job.h"
#include "tests/unit/base/capture.h"
#include "transport/ofi/work_queues.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

/// An engine of so many places, each taken until end_one().
class Places final : public ofi::Engine {
 public:
  explicit Places(std::size_t free) : free_(free) {}
  void issue(ofi::Operation& operation, bool) override {
    ++asked;
    if (free_ == 0) {
      operation.refused |= refuses;
      return;
    }
    --free_;
    operation.piece_begins();
    operation.state = ofi::Operation::State::kIssued;
    taken_.push_back(&operation);
  }
  [[nodiscard]] std::string awaits(const ofi::Operation& operation) const override {
    return strprintf("%u places", operation.in_flight);
  }
  void end_one() {
    taken_.front()->piece_ends();
    taken_.pop_front();
    ++free_;
  }

  /// It fails, and is not given back.
  void fail_one() { taken_.front()->fail(ofi::failure(abi::Syndrome::kRemoteAccess, "no")); }

  void end_all() {
    while (!taken_.empty()) end_one();
  }

  bool refuses = false;   ///< as a provider does
  std::size_t asked = 0;  ///< how often to issue something

 private:
  std::size_t free_;
  std::deque<ofi::Operation*> taken_;
};

/// Queues 0 to `count` - 1, each to a peer of its own, stepped by the test.
class QueueRig {
 public:
  static constexpr std::uint64_t kPage = 4096, kPerQueue = kDepth * 64 + kPage;
  /// `to_one`: all queues lead to the same peer.
  QueueRig(std::size_t count, std::size_t places, std::size_t operations = 256, bool to_one = false)
      : scratch_(operations * ofi::kScratchBytes),
        operations_(scratch_.data(), operations, to_one ? 1 : count),
        engine(places),
        peers(to_one ? 1 : count),
        waiting(count),
        memory_(count * kPerQueue),
        doorbells_(count, ofi::kNotRung),
        queues_(doorbells_.data()) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t at = i * kPerQueue;
      const nic::QueuePlace place{.entries = at, .completion = at + kDepth * 64, .depth = kDepth};
      const auto number = static_cast<std::uint32_t>(0x100 + i);
      ofi::Peer& peer = peers[to_one ? 0 : i];
      peer.pe = to_one ? 0 : static_cast<int>(i);
      peer.heap_bytes = kHeapBytes;
      ofi::WorkQueue queue({.base = memory_.data()}, place, number);
      queue.connect(peer, 0);
      queues_.add(std::move(queue));
      clients.emplace_back(memory_.data(), place,
                           nic::CreatedQueue{.number = number, .doorbell = &doorbells_[i]}, 0, 0);
    }
  }
  /// One round of the executor, `after` a moment. True when there was something to do.
  bool step(ofi::Clock::duration after = {}) {
    const bool busy = queues_.step(services_, now_ += after);
    queues_.find_overdue(services_, now_);
    for (std::size_t i = 0; i < waiting.size(); ++i) waiting[i] = queues_.all()[i].waiting_since();
    return busy;
  }
  /// In a list of those that are looked at in the next round.
  [[nodiscard]] bool listed(std::size_t i) const { return queues_.all()[i].listed(); }

 private:
  std::vector<std::uint8_t> scratch_;
  ofi::OperationPool operations_;

 public:
  Places engine;
  std::vector<ofi::Peer> peers;
  std::vector<std::optional<ofi::Clock::time_point>> waiting;
  std::vector<Client> clients;

 private:
  std::vector<std::uint8_t> memory_;
  std::vector<std::uint64_t> doorbells_;
  ofi::Clock::time_point now_ = ofi::Clock::now();
  ofi::Memories memories_;
  ofi::QueueServices services_{.data = engine,
                               .atomics = engine,
                               .operations = operations_,
                               .memories = memories_,
                               .heap_bytes = kHeapBytes,
                               .max_message = 1 << 30,
                               .timeout = std::chrono::seconds(10)};
  ofi::WorkQueues queues_;
};

/// Writes that keep a queue busy; the number of the last.
std::uint64_t post_writes(Client& client, int writes) {
  std::uint64_t last = 0;
  for (int i = 0; i < writes; ++i) last = client.write(64, 0, 8);
  client.ring();
  return last;
}

/// What a queue says of the entry when its engine has carried out all that it got.
Outcome outcome_of(QueueRig& rig, std::uint64_t entry) {
  for (int round = 0; round < 10; ++round) {
    rig.step();
    rig.engine.end_all();
  }
  return rig.clients[0].wait(entry, 0);
}

}  // namespace

TEST_CASE("a round hears all doorbells that rang before it, of neighbours, too", "[ofi]") {
  QueueRig rig(40, 10'000);
  rig.step();
  CHECK_FALSE(rig.step());
  const std::vector<std::size_t> rung{0, 1, 2, 31, 32, 39};
  for (const std::size_t i : rung) post_writes(rig.clients[i], 1);
  CHECK(rig.step());
  for (std::size_t i = 0; i < rig.waiting.size(); ++i) {
    INFO(i);
    CHECK(rig.waiting[i].has_value() == (std::ranges::find(rung, i) != rung.end()));
  }
  CHECK_FALSE(rig.step());
  // Only doorbells are looked at from now on.
  for (std::size_t i = 0; i < rig.waiting.size(); ++i) CHECK_FALSE(rig.listed(i));
}

TEST_CASE("a queue whose depth is no power of two is refused", "[ofi]") {
  std::vector<std::uint8_t> memory(4096);
  const nic::QueuePlace place{.entries = 0, .completion = 48 * 64, .depth = 48};
  CHECK_THROWS_WITH((ofi::WorkQueue({.base = memory.data()}, place, 1)),
                    Catch::Contains("48 entries, which is no power of two"));
}

TEST_CASE("a queue that waits for a place asks once a round", "[ofi]") {
  constexpr std::size_t kQueues = 3;
  QueueRig rig(kQueues, 2 * kQueues);
  for (int round = 0; round < 10; ++round) {
    for (Client& client : rig.clients) post_writes(client, 3);
    rig.step();
    rig.engine.end_one();
    rig.engine.end_one();
  }
  rig.step();
  rig.engine.asked = 0;
  for (Client& client : rig.clients) post_writes(client, 1);
  rig.step();
  CHECK(rig.engine.asked == kQueues);
}

TEST_CASE("places that become free go round among the queues that wait", "[ofi]") {
  constexpr std::size_t kQueues = 4;
  const std::size_t places = GENERATE(1u, 2u, 3u);
  QueueRig rig(kQueues, places);
  for (std::size_t i = 0; i + 1 < kQueues; ++i) post_writes(rig.clients[i], 200);
  rig.step();
  post_writes(rig.clients.back(), 1);
  rig.step();
  unsigned rounds = 0;
  for (; !rig.waiting.back() && rounds < 100; ++rounds) {
    rig.engine.end_one();
    rig.step();
  }
  INFO(places << " places");
  CHECK(rounds <= kQueues);
}

TEST_CASE("an operation that waits for a place is not overdue", "[ofi]") {
  QueueRig rig(2, 1);
  post_writes(rig.clients[0], 1);
  rig.step();
  post_writes(rig.clients[1], 1);
  rig.step();
  CHECK_FALSE(rig.waiting[1]);
  rig.step(std::chrono::seconds(100));
  CHECK_FALSE(rig.peers[0].lost.empty());  // taken, and never ended
  CHECK(rig.peers[1].lost.empty());
  rig.engine.end_one();
  rig.step();
  CHECK(rig.waiting[1]);
  rig.step(std::chrono::seconds(5));
  CHECK(rig.peers[1].lost.empty());
  rig.step(std::chrono::seconds(5));
  CHECK_FALSE(rig.peers[1].lost.empty());
}

TEST_CASE("a queue that fails waits for nothing, and gives back what it has had", "[ofi]") {
  QueueRig rig(2, 10'000, 64, true);
  post_writes(rig.clients[0], 100);  // 64 are all operations
  rig.step();
  rig.engine.fail_one();
  for (int round = 0; round < 3; ++round) rig.step();
  CHECK(int{rig.clients[0].wait(0, 0).syndrome} == 0x13);
  CHECK_FALSE(rig.waiting[0]);
  post_writes(rig.clients[1], 1);
  rig.step();
  CHECK_FALSE(rig.waiting[1]);  // nothing has ended yet
  rig.engine.end_one();
  rig.engine.end_one();
  for (int round = 0; round < 3; ++round) rig.step();
  CHECK(rig.waiting[1]);
}

TEST_CASE("a queue that fails gives back at once what has not been begun", "[ofi]") {
  QueueRig rig(2, 10'000, 64, true);
  rig.clients[0].write(64, 0, 8);
  // With it all operations that a peer may have; these wait for the first, not for places.
  for (int i = 0; i < 47; ++i) rig.clients[0].write(64, 0, 8, kSignalled | kFenced);
  rig.clients[0].ring();
  rig.step();
  CHECK_FALSE(rig.listed(0));
  rig.engine.fail_one();
  for (int round = 0; round < 3; ++round) rig.step();
  rig.engine.asked = 0;
  post_writes(rig.clients[1], 1);
  rig.step();
  CHECK(rig.engine.asked == 1);
}

TEST_CASE("a queue that gets no operation is nothing to do until one is given back", "[ofi]") {
  QueueRig rig(2, 10'000, 2, true);
  post_writes(rig.clients[0], 2);
  rig.step();
  post_writes(rig.clients[1], 1);
  rig.step();
  rig.step();
  CHECK_FALSE(rig.step());
  CHECK_FALSE(rig.waiting[1]);
  rig.engine.end_one();
  for (int round = 0; round < 3 && !rig.waiting[1]; ++round) rig.step();
  CHECK(rig.waiting[1]);
}

TEST_CASE("an operation that has failed is not overdue", "[ofi]") {
  QueueRig rig(1, 1);
  post_writes(rig.clients[0], 1);
  rig.step();
  rig.engine.fail_one();
  rig.step();
  CHECK(int{rig.clients[0].wait(0, 0).syndrome} == 0x13);
  rig.step(std::chrono::seconds(100));
  CHECK(rig.peers[0].lost.empty());
}

TEST_CASE("an operation that the provider refuses is overdue at some time", "[ofi]") {
  QueueRig rig(1, 0);
  rig.engine.refuses = true;
  post_writes(rig.clients[0], 1);
  rig.step();
  CHECK(rig.waiting[0]);
  rig.step(std::chrono::seconds(10));
  CHECK_FALSE(rig.peers[0].lost.empty());
}

TEST_CASE("peers that never answer leave operations to others", "[ofi]") {
  // As many as the executor has. Each queue may have 64 under way: eight would take them all.
  const std::size_t slow = GENERATE(1u, 7u, 8u, 9u, 30u);
  QueueRig rig(slow + 1, 10'000, 512);
  for (std::size_t i = 0; i < slow; ++i) post_writes(rig.clients[i], 100);
  for (int round = 0; round < 10; ++round) rig.step();
  post_writes(rig.clients.back(), 1);
  rig.step();
  INFO(slow << " peers");
  CHECK(rig.waiting.back());
}

TEST_CASE("a doorbell that is wrong takes one operation, and leaves the others to others",
          "[ofi]") {
  QueueRig rig(2, 10'000, 2, true);
  REQUIRE(outcome_of(rig, post_writes(rig.clients[0], 1)).ok());
  rig.clients[0].write(64, 0, 8);
  rig.clients[0].ring(abi::doorbell_value(2, rig.clients[0].number() + 1));
  post_writes(rig.clients[1], 1);
  rig.step();
  const Outcome outcome = rig.clients[0].wait(0, 0);
  CHECK(int{outcome.syndrome} == 0x02);
  CHECK(int{outcome.opcode} == 0);  // of no entry
  CHECK(rig.waiting[1]);
}

TEST_CASE("what is behind an entry that is wrong takes no operations", "[ofi]") {
  QueueRig rig(2, 10'000, 64, true);
  rig.clients[0].write(64, 0, 8);
  rig.clients[0].write(kHeapBytes, 0, 8);
  post_writes(rig.clients[0], 60);
  rig.step();
  post_writes(rig.clients[1], 1);
  rig.step();
  CHECK(rig.waiting[1]);
}

TEST_CASE("nothing is asked of an engine for a peer that is lost", "[ofi]") {
  QueueRig rig(1, 10'000);
  rig.peers[0].lost = "gone";
  post_writes(rig.clients[0], 1);
  rig.step();
  rig.step();
  CHECK(int{rig.clients[0].wait(0, 0).syndrome} == 0x15);
  CHECK(rig.engine.asked == 0);
}

TEST_CASE("a doorbell may be a queue ahead of what has ended, or a queue old", "[ofi]") {
  struct Row {
    int distance;  // from what the queue knows
    std::uint8_t syndrome;
  };
  for (const Row& row : {Row{1, 0}, {256, 0}, {257, 2}, {0, 0}, {-256, 0}, {-257, 2}}) {
    INFO(row.distance);
    QueueRig rig(1, 10'000);
    Client& client = rig.clients[0];
    StderrCapture log;
    CHECK(outcome_of(rig, post_writes(client, 200)).ok());
    std::uint64_t last = 0;
    for (int i = 0; i < std::clamp(row.distance, 1, 256); ++i) last = client.write(64, 0, 8);
    const auto producer = static_cast<std::uint16_t>(200 + row.distance);
    client.ring(abi::doorbell_value(producer, client.number()));
    if (row.distance <= 0) {
      CHECK(outcome_of(rig, last).timed_out == (row.syndrome == 0));
      client.ring();
    }
    const Outcome outcome = outcome_of(rig, last);
    CHECK_FALSE(outcome.timed_out);
    CHECK(int{outcome.syndrome} == int{row.syndrome});
    const auto lines = log.writes();
    CHECK(lines.size() == (row.syndrome == 0 ? 0 : 1));
    if (!lines.empty())
      CHECK_THAT(lines[0],
                 Catch::Contains(strprintf("doorbell announces entry %u; 0 of 256 entries "
                                           "are in use",
                                           producer)));
  }
}

TEST_CASE("an entry may be as long as a message, and reach the ends of heaps", "[ofi]") {
  struct Row {
    std::uint64_t remote, local;
    std::uint32_t bytes;
    std::uint8_t syndrome;
  };
  constexpr std::uint64_t kEnd = kHeapBytes;
  for (const Row& row :
       {Row{0, 0, kEnd, 0}, Row{kEnd - 8, kEnd - 8, 8, 0}, Row{0, kEnd - 7, 8, 0x04},
        Row{kEnd - 7, 0, 8, 0x13}, Row{0, 0, 1 << 30, 0x04}, Row{0, 0, (1 << 30) + 1, 0x01}}) {
    INFO(row.bytes << " bytes from " << row.local << " to " << row.remote);
    QueueRig rig(1, 10'000);
    const std::uint64_t entry = rig.clients[0].write(row.remote, row.local, row.bytes);
    rig.clients[0].ring();
    const Outcome outcome = outcome_of(rig, entry);
    CHECK_FALSE(outcome.timed_out);
    CHECK(int{outcome.syndrome} == int{row.syndrome});
  }
}

TEST_CASE("the longest entry is taken whole", "[ofi]") {
  QueueRig rig(1, 10'000);
  constexpr std::size_t kInline = nic::kMaxWqeBytes - 16 - 16 - 4;
  const std::uint64_t entry =
      rig.clients[0].write_inline(64, std::vector<std::uint8_t>(kInline, 1));
  CHECK(rig.clients[0].next() == 16);
  rig.clients[0].write(64, 0, 8);
  rig.clients[0].ring();
  CHECK(outcome_of(rig, entry).ok());
}

TEST_CASE("a small write gets through between large ones to other PEs", "[ofi]") {
  if (!have_libfabric()) return;
  const Leg leg = GENERATE(from_range(legs()));
  INFO(leg.name());
  constexpr unsigned kRounds = 40, kEach = 64;
  Job job(4, leg);
  for (int pe = 1; pe < 4; ++pe)
    REQUIRE(job[0].to(pe).ring_and_wait(job[0].to(pe).write(64, 0, 8)).ok());
  std::atomic<unsigned> begun{0};
  std::atomic<bool> arrived{false};
  std::vector<unsigned> rounds(2);
  std::vector<std::thread> streams;
  for (int pe = 1; pe < 3; ++pe)
    streams.emplace_back([&, pe] {
      Client& client = job[0].to(pe);
      unsigned& round = rounds[static_cast<std::size_t>(pe - 1)];
      std::uint64_t last = 0;
      for (; round < kRounds && !arrived; ++round) {
        for (unsigned i = 0; i < kEach; ++i) last = client.write(4096, 4096, 65536);
        client.ring();
        if (round == 2) ++begun;
      }
      client.wait(last);
    });
  while (begun < 2) std::this_thread::yield();
  Client& client = job[0].to(3);
  const Outcome outcome = client.ring_and_wait(client.write(64, 0, 8));
  arrived = true;
  for (std::thread& stream : streams) stream.join();
  CHECK(outcome.ok());
  CHECK(std::min(rounds[0], rounds[1]) < kRounds);
}

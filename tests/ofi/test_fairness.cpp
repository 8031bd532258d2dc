// Queues share the slots of an engine: none waits while others are served repeatedly, and a wait
// for a slot is no sign that a peer is gone.
#include "tests/ofi/job.h"
#include "tests/capture.h"
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

/// An engine with so many slots, each taken until end_one().
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

  /// It fails, and keeps its slot.
  void fail_one() { taken_.front()->fail(ofi::failure(abi::Syndrome::kRemoteAccess, "no")); }

  void end_all() {
    while (!taken_.empty()) end_one();
  }

  bool refuses = false;   ///< refuses operations, as a provider does
  std::size_t asked = 0;  ///< calls that ask to issue something

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
  /// Runs one round of the executor, `after` a moment. Returns true if there was something to do.
  bool step(ofi::Clock::duration after = {}) {
    const bool busy = queues_.step(services_, now_ += after);
    queues_.find_overdue(services_, now_);
    for (std::size_t i = 0; i < waiting.size(); ++i) waiting[i] = queues_.all()[i].waiting_since();
    return busy;
  }
  /// Is the queue in a list that the next round looks at?
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

/// Posts writes that keep a queue busy; returns the number of the last entry.
std::uint64_t post_writes(Client& client, int writes) {
  std::uint64_t last = 0;
  for (int i = 0; i < writes; ++i) last = client.write(64, 0, 8);
  client.ring();
  return last;
}

/// Returns the completion of the entry after its engine has executed everything that it got.
Outcome outcome_of(QueueRig& rig, std::uint64_t entry) {
  for (int round = 0; round < 10; ++round) {
    rig.step();
    rig.engine.end_all();
  }
  return rig.clients[0].wait(entry, 0);
}

}  // namespace

TEST_CASE("a round sees all doorbells that rang before it, those of neighbours, too", "[ofi]") {
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
  // Only doorbells are read from now on.
  for (std::size_t i = 0; i < rig.waiting.size(); ++i) CHECK_FALSE(rig.listed(i));
}

TEST_CASE("slots that become free go to the waiting queues in turn", "[ofi]") {
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

TEST_CASE("an operation that waits for a slot is not overdue", "[ofi]") {
  QueueRig rig(2, 1);
  post_writes(rig.clients[0], 1);
  rig.step();
  post_writes(rig.clients[1], 1);
  rig.step();
  CHECK_FALSE(rig.waiting[1]);
  rig.step(std::chrono::seconds(100));
  CHECK_FALSE(rig.peers[0].lost.empty());  // the slots are taken and never released
  CHECK(rig.peers[1].lost.empty());
  rig.engine.end_one();
  rig.step();
  CHECK(rig.waiting[1]);
  rig.step(std::chrono::seconds(5));
  CHECK(rig.peers[1].lost.empty());
  rig.step(std::chrono::seconds(5));
  CHECK_FALSE(rig.peers[1].lost.empty());
}

TEST_CASE("a queue that fails releases at once what has not begun", "[ofi]") {
  QueueRig rig(2, 10'000, 64, true);
  rig.clients[0].write(64, 0, 8);
  // It has all operations that a peer may have; these wait for the first one, not for slots.
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

TEST_CASE("peers that never answer leave operations to others", "[ofi]") {
  // The executor has this many operations. Each queue may have 64 pending, so eight would take them
  // all.
  const std::size_t slow = GENERATE(1u, 7u, 8u, 9u, 30u);
  QueueRig rig(slow + 1, 10'000, 512);
  for (std::size_t i = 0; i < slow; ++i) post_writes(rig.clients[i], 100);
  for (int round = 0; round < 10; ++round) rig.step();
  post_writes(rig.clients.back(), 1);
  rig.step();
  INFO(slow << " peers");
  CHECK(rig.waiting.back());
}

TEST_CASE("a wrong doorbell uses one operation, and leaves the others to other queues", "[ofi]") {
  QueueRig rig(2, 10'000, 2, true);
  REQUIRE(outcome_of(rig, post_writes(rig.clients[0], 1)).ok());
  rig.clients[0].write(64, 0, 8);
  rig.clients[0].ring(abi::doorbell_value(2, rig.clients[0].number() + 1));
  post_writes(rig.clients[1], 1);
  rig.step();
  const Outcome outcome = rig.clients[0].wait(0, 0);
  CHECK(int{outcome.syndrome} == 0x02);
  CHECK(int{outcome.opcode} == 0);  // not of an entry
  CHECK(rig.waiting[1]);
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

// What the engines do where places and buffers are few, and where a peer is gone or gives up: what
// an operation had is free again, whatever becomes of it.
#include "tests/ofi/engine_rig.h"

#include "transport/ofi/active_messages.h"
#include "transport/ofi/executor.h"

#include <rdma/fi_errno.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

constexpr std::int64_t kForever = 3600ll * 1'000'000'000;
/// More than there are buffers of any kind.
constexpr int kMany = 200;

/// Messages between a PE and itself: atomics alone, or data by copies that the test ends.
struct MessageRig {
  explicit MessageRig(bool carries_data = false, bool flushes = false)
      : messages({.lanes = rig.lanes,
                  .heap = carries_data ? static_cast<ofi::MemoryAccess&>(copies) : *rig.access,
                  .peers = rig.peers,
                  .memories = rig.memories,
                  .heap_bytes = kHeap,
                  .remote_key = kRemoteKey,
                  .carries_data = carries_data,
                  .max_queues = 1,
                  .flusher = flushes ? &rig.engine : nullptr}) {}
  ofi::Operation& issue(nic::WqeKind kind) {
    ofi::Operation& operation = rig.operation();
    operation.wqe.kind = kind;
    messages.issue(operation, false);
    return operation;
  }
  void rounds() {
    for (int round = 0; round < 4; ++round) {
      messages.progress();
      rig.lanes.poll();
    }
  }
  /// An atomic gets through.
  void check_good() {
    rig.changes = 0;
    ofi::Operation& last = issue(nic::WqeKind::kFetchAdd);
    CHECK(last.state == ofi::Operation::State::kIssued);
    rounds();
    copies.ended = copies.copies;
    rounds();
    copies.ended = copies.copies;
    rounds();
    CHECK(last.done());
    rig.operations.release(&last);
    CHECK(rig.peers[0].requests == 0);
    CHECK(rig.rules.violations().empty());
  }
  [[nodiscard]] std::uint64_t sends() const { return rig.rules.taken[FabricDouble::kSend]; }

  EngineRig rig;
  StepwiseAccess copies{rig.heap_memory};
  ofi::ActiveMessages messages;
};

}  // namespace

TEST_CASE("a read of several pieces is flushed when all of it has come", "[ofi][double]") {
  if (!have_double()) return;
  // With one place the second piece is asked for when the first has come; with two one of them
  // comes before the other.
  const std::size_t places = GENERATE(1u, 2u);
  EngineRig rig(true, "efa-direct", nullptr, places);
  const std::uint64_t words[] = {0x1111, 0x2222};
  std::memcpy(rig.heap_memory.data() + 64, words, sizeof(words));
  ofi::Operation& read = rig.operation();
  read.wqe.kind = nic::WqeKind::kRead;
  read.wqe.length = 16;
  read.wqe.local.push_back({1024, 8, 0});
  if (places == 2) {
    ofi::Operation& other = rig.operation();
    other.wqe.kind = nic::WqeKind::kWrite;
    other.wqe.remote_address = 2048;
    rig.engine.issue(other, false);
    rig.rules.rtt = 50'000'000;
  }
  rig.engine.issue(read, false);
  CHECK(read.left() == 8);
  rig.rules.rtt = 0;
  rig.lanes.poll();
  if (places == 2) {
    rig.engine.issue(read, false);
    rig.lanes.poll();
    CHECK(read.in_flight == 1);  // the first
    CHECK(read.state == ofi::Operation::State::kIssued);
  }
  while (!read.done()) {
    if (read.state != ofi::Operation::State::kIssued) rig.engine.issue(read, false);
    rig.lanes.poll();
  }
  CHECK(rig.word(512) == 0x1111);
  CHECK(rig.word(1024) == 0x2222);
  CHECK(rig.reads() == 3);
}

TEST_CASE("results of atomics that are under way at the same time do not mix", "[ofi][double]") {
  if (!have_double()) return;
  EngineRig rig(false, "cxi");
  const std::uint64_t words[] = {0x1111, 0x2222};
  std::memcpy(rig.heap_memory.data() + 64, words, sizeof(words));
  for (const std::uint64_t i : {0u, 8u}) {
    ofi::Operation& atomic = rig.operation();
    atomic.wqe.kind = nic::WqeKind::kFetchAdd;
    atomic.wqe.swap_or_add = i + 1;
    atomic.wqe.remote_address = 64 + i;
    atomic.wqe.local.clear();
    atomic.wqe.local.push_back({512 + i, 8, 0});
    rig.engine.issue(atomic, false);
  }
  for (int round = 0; round < 2; ++round) {
    rig.lanes.poll();
    rig.engine.progress();
  }
  CHECK(rig.word(64) == 0x1112);
  CHECK(rig.word(72) == 0x222b);
  CHECK(rig.word(512) == 0x1111);
  CHECK(rig.word(520) == 0x2222);
}

TEST_CASE("an operation is described as its entry has it", "[ofi][double]") {
  if (!have_double()) return;
  struct Row {
    nic::WqeKind kind;
    abi::Opcode opcode;
    const char* text;
  };
  EngineRig rig;
  ofi::Operation& operation = rig.operation();
  for (const Row& row :
       {Row{nic::WqeKind::kWrite, abi::Opcode::kRdmaWrite, "WRITE of 8 bytes to PE 0"},
        Row{nic::WqeKind::kRead, abi::Opcode::kRdmaRead, "READ of 8 bytes to PE 0"},
        Row{nic::WqeKind::kFetchAdd, abi::Opcode::kAtomicFetchAdd, "atomic of 8 bytes to PE 0"},
        // A word that is stored by an atomic.
        Row{nic::WqeKind::kMaskedCompareSwap, abi::Opcode::kRdmaWrite,
            "WRITE of 8 bytes to PE 0"}}) {
    operation.wqe.kind = row.kind;
    operation.wqe.opcode = static_cast<std::uint8_t>(row.opcode);
    CHECK(operation.describe() == row.text);
  }
}

TEST_CASE("calls that fail give their places back", "[ofi][double]") {
  if (!have_double()) return;
  // The provider says so later; or it wants another try, and the peer is lost before that.
  const int error = GENERATE(FI_EACCES, FI_ENORX);
  EngineRig rig(false, "efa-direct", nullptr, 4);
  for (int i = 0; i < 10; ++i) {
    rig.rules.error = error;
    rig.rules.errors = 1;
    ofi::Operation& operation = rig.operation();
    operation.wqe.kind = nic::WqeKind::kWrite;
    rig.engine.issue(operation, false);
    REQUIRE(operation.state == ofi::Operation::State::kIssued);
    rig.lanes.poll();
    if (error == FI_ENORX) rig.peers[0].lost = "gone";
    rig.engine.progress();
    CHECK(operation.done());
    CHECK(int{operation.failure.syndrome} == (error == FI_ENORX ? 0x15 : 0x13));
    CHECK(rig.peers[0].bytes == 0);
    rig.peers[0].lost.clear();
    rig.operations.release(&operation);
  }
}

TEST_CASE("nothing is sent to a peer that is lost", "[ofi][double]") {
  if (!have_double()) return;
  MessageRig rig;
  rig.check_good();  // of buffers that have been in use, too
  const std::uint64_t before = rig.sends();
  rig.rig.peers[0].lost = "gone";
  for (int i = 0; i < kMany; ++i) {
    ofi::Operation& operation = rig.issue(nic::WqeKind::kFetchAdd);
    CHECK(operation.done());
    CHECK(int{operation.failure.syndrome} == 0x15);
    CHECK(operation.failure.text == "gone");
    rig.rig.operations.release(&operation);
  }
  CHECK(rig.sends() == before);
  rig.rig.peers[0].lost.clear();
  rig.messages.abandon(rig.rig.peers[0], rig.rig.outbound);
  rig.rounds();
  CHECK(rig.rig.peers[0].requests == 0);
}

TEST_CASE("what a lost peer has not answered ends once", "[ofi][double]") {
  if (!have_double()) return;
  MessageRig rig(true);
  ofi::Peer& peer = rig.rig.peers[0];
  rig.check_good();
  rig.messages.peer_lost(0);
  CHECK(peer.requests == 0);  // it has answered all
  SECTION("a message that waits for a place") {
    rig.rig.rules.busy = 100;
    ofi::Operation& atomic = rig.issue(nic::WqeKind::kFetchAdd);
    peer.lost = "gone";
    rig.messages.peer_lost(0);
    CHECK(int{atomic.failure.syndrome} == 0x15);
    CHECK(peer.requests == 0);
    rig.rig.rules.busy = 0;
    rig.rounds();
  }
  CHECK(peer.requests == 0);
}

TEST_CASE("more requests than answers have room for are all carried out", "[ofi][double]") {
  if (!have_double()) return;
  Leg leg{.provider = "efa/efa", .gdr = "off"};
  leg.by_hand = true;
  constexpr int kPes = 4;
  Job job(kPes, leg);
  FabricDouble& rules = *fabric_double();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto all_end = [&] {
    for (int pe = 0; pe < kPes; ++pe) {
      Client& client = job[pe].to(0);
      while (!client.has_ended(client.next() - 1)) {
        REQUIRE(std::chrono::steady_clock::now() < limit);
        for (int each = 0; each < kPes; ++each) job[each].round();
      }
    }
  };
  const auto post = [&](int writes) {
    for (int pe = 0; pe < kPes; ++pe) {
      for (int i = 0; i < writes; ++i) job[pe].to(0).write(4096, 0, 8);
      job[pe].to(0).ring();
      for (int round = 0; round < 3; ++round) job[pe].round();
    }
  };
  post(1);
  all_end();  // they know each other
  post(12);   // as many as each has under way to one peer, and more than there are answers for
  rules.busy = 100;
  for (int round = 0; round < 10; ++round) job[0].round();
  rules.busy = 0;
  all_end();
}

namespace {

/// Of a GPU that a thread cannot be attached to.
struct Unattached final : ofi::MemoryAccess {
  void attach_thread() override { throw Error(GSHMEMX_ERROR_CUDA, "no context for the thread"); }
  ofi::Staging allocate(std::size_t) override { return {}; }
  ofi::Ticket start_write(std::uint64_t, const void*, std::size_t) override { return 0; }
  ofi::Ticket start_read(std::uint64_t, void*, std::size_t) override { return 0; }
  bool done(ofi::Ticket) override { return true; }
  ofi::Ticket start_atomic(std::uint64_t, const nic::Wqe&, std::uint64_t*) override { return 0; }
  bool coherent() const override { return false; }
};

}  // namespace

TEST_CASE("an executor whose thread does not reach the memory says so, and loses all peers",
          "[ofi][double]") {
  if (!have_double()) return;
  EngineRig rig;
  Unattached access;
  std::vector<std::pair<int, std::string>> errors;
  ofi::Executor executor(
      {.lanes = rig.lanes,
       .heap = access,
       .peers = rig.peers,
       .services = {.data = rig.engine,
                    .atomics = rig.engine,
                    .operations = rig.operations,
                    .memories = rig.memories},
       .pool = rig.pool,
       .on_error = [&](const Error& error, int pe) { errors.emplace_back(pe, error.what()); }});
  executor.start();
  executor.call([] {});
  executor.stop();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].first == -1);
  CHECK_THAT(errors[0].second, Catch::Contains("no context for the thread"));
  CHECK_THAT(rig.peers[0].lost, Catch::Contains("no context for the thread"));
}

TEST_CASE("an executor tells of a lost peer, and ends what that has not answered",
          "[ofi][double]") {
  if (!have_double()) return;
  MessageRig rig;
  std::vector<int> lost;
  ofi::Executor executor({.lanes = rig.rig.lanes,
                          .heap = *rig.rig.access,
                          .rma = &rig.rig.engine,
                          .messages = &rig.messages,
                          .peers = rig.rig.peers,
                          .services = {.data = rig.rig.engine,
                                       .atomics = rig.messages,
                                       .operations = rig.rig.operations,
                                       .memories = rig.rig.memories},
                          .pool = rig.rig.pool,
                          .on_error = [&](const Error&, int pe) { lost.push_back(pe); }});
  rig.rig.rules.rtt = kForever;
  ofi::Operation& atomic = rig.issue(nic::WqeKind::kFetchAdd);
  auto now = ofi::Clock::now();
  executor.round(now);
  CHECK(lost.empty());
  rig.rig.peers[0].lost = "gone";
  for (int i = 0; i < 2; ++i) executor.round(now += std::chrono::milliseconds(30));
  CHECK(lost == std::vector<int>{0});
  CHECK(int{atomic.failure.syndrome} == 0x15);
  CHECK(rig.rig.peers[0].requests == 0);
  rig.rig.rules.rtt = 0;
}

// Tests the engines when slots and buffers are few, and when a peer is gone or gives up: the
// resources of an operation are free again, however it ends.
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

/// More than there are buffers of any kind.
constexpr int kMany = 200;

/// Messages between a PE and itself: atomics only, or data by copies that the test completes.
struct MessageRig {
  explicit MessageRig(bool carries_data = false, bool flushes = false)
      : messages({.rails = rig.rails,
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
      rig.rails.poll();
    }
  }
  /// Checks that an atomic succeeds.
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

TEST_CASE("a read of several chunks is flushed when all of it has arrived", "[ofi][double]") {
  if (!have_double()) return;
  // With one slot the second chunk is requested after the first has arrived; with two slots one of
  // them arrives before the other.
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
  rig.rails.poll();
  if (places == 2) {
    rig.engine.issue(read, false);
    rig.rails.poll();
    CHECK(read.in_flight == 1);  // the first
    CHECK(read.state == ofi::Operation::State::kIssued);
  }
  while (!read.done()) {
    if (read.state != ofi::Operation::State::kIssued) rig.engine.issue(read, false);
    rig.rails.poll();
  }
  CHECK(rig.word(512) == 0x1111);
  CHECK(rig.word(1024) == 0x2222);
  CHECK(rig.reads() == 3);
}

TEST_CASE("results of atomics that are pending at the same time do not mix", "[ofi][double]") {
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
    rig.rails.poll();
    rig.engine.progress();
  }
  CHECK(rig.word(64) == 0x1112);
  CHECK(rig.word(72) == 0x222b);
  CHECK(rig.word(512) == 0x1111);
  CHECK(rig.word(520) == 0x2222);
}

TEST_CASE("calls that fail release their slots", "[ofi][double]") {
  if (!have_double()) return;
  // The provider reports it later; or it asks for another attempt, and the peer is lost before
  // that.
  const int error = GENERATE(FI_EACCES, FI_ENORX);
  EngineRig rig(false, "efa-direct", nullptr, 4);
  for (int i = 0; i < 10; ++i) {
    rig.rules.error = error;
    rig.rules.errors = 1;
    ofi::Operation& operation = rig.operation();
    operation.wqe.kind = nic::WqeKind::kWrite;
    rig.engine.issue(operation, false);
    REQUIRE(operation.state == ofi::Operation::State::kIssued);
    rig.rails.poll();
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
  rig.check_good();  // buffers that were used are free, too
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

TEST_CASE("an operation that a lost peer has not answered completes once", "[ofi][double]") {
  if (!have_double()) return;
  MessageRig rig(true);
  ofi::Peer& peer = rig.rig.peers[0];
  rig.check_good();
  rig.messages.peer_lost(0);
  CHECK(peer.requests == 0);  // it has answered all of them
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

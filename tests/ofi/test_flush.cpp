// Data that NICs have written into GPU memory may become visible after its completion: a read by
// each of them flushes it. Tests the engines alone, over the double, as a PE that reaches itself by
// three NICs.
#include "tests/ofi/engine_rig.h"
#include "tests/capture.h"

#include "transport/ofi/active_messages.h"
#include "transport/ofi/message.h"

#include <rdma/fi_errno.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

using namespace gshmem;
using namespace gshmem::test;

TEST_CASE("a flush of the local heap is a read by each NIC", "[ofi][double]") {
  if (!have_double()) return;
  EngineRig rig;
  for (int lap = 1; lap < 3; ++lap) {
    rig.engine.flush_own(rig);
    CHECK(rig.reads() == kNics * static_cast<unsigned>(lap));
    CHECK(rig.flushes == lap - 1);
    rig.rails.poll();
    CHECK(rig.flushes == lap);
    CHECK_FALSE(rig.why);
    rig.engine.progress();
    rig.rails.poll();
    CHECK(rig.reads() == kNics * static_cast<unsigned>(lap));
    CHECK(rig.flushes == lap);
  }
}

TEST_CASE("if data of reads arrives late, a read of the local heap follows each", "[ofi][double]") {
  if (!have_double()) return;
  const bool trails = GENERATE(false, true);
  const bool read = GENERATE(false, true);
  INFO((read ? "a read" : "a write") << (trails ? ", late" : ""));
  EngineRig rig(trails);
  ofi::Operation& operation = rig.operation();
  operation.wqe.kind = read ? nic::WqeKind::kRead : nic::WqeKind::kWrite;
  rig.engine.issue(operation, false);
  CHECK(rig.reads() == (read ? 1u : 0u));
  rig.rails.poll();
  CHECK(rig.changes == 1);
  const bool more = trails && read;
  CHECK(operation.done() == !more);
  if (!more) return;
  CHECK(operation.state == ofi::Operation::State::kBegun);
  rig.rules.busy = 100;
  rig.engine.issue(operation, false);
  CHECK(operation.state == ofi::Operation::State::kBegun);  // no slot: it is tried again later
  rig.rules.busy = 0;
  rig.rules.journals = true;
  rig.engine.issue(operation, false);
  CHECK(rig.rules.calls() == rig.fetches({0}));
  CHECK(rig.reads() == 2);
  CHECK_FALSE(operation.done());
  rig.rails.poll();
  CHECK(operation.done());
  CHECK_FALSE(operation.failure);
  CHECK(rig.changes == 2);
}

namespace {

/// Stores take a while, or fail.
struct SlowAccess final : ofi::MemoryAccess {
  ofi::Staging allocate(std::size_t) override { return {}; }
  ofi::Ticket start_write(std::uint64_t offset, const void* from, std::size_t bytes) override {
    if (refuses) throw Error(GSHMEMX_ERROR_CUDA, "no copies");
    CHECK((offset == 512 && bytes == 8));
    staged = static_cast<const std::uint8_t*>(from);
    std::memcpy(&stored, from, sizeof(stored));
    return 7;
  }
  ofi::Ticket start_read(std::uint64_t, void*, std::size_t) override { return ofi::kNoTicket; }
  void poll() override { ended |= ends; }
  bool done(ofi::Ticket ticket) override {
    CHECK(ticket == 7);
    if (fails) throw Error(GSHMEMX_ERROR_CUDA, "a copy failed");
    return ended;
  }
  ofi::Ticket start_atomic(std::uint64_t, const nic::Wqe&, std::uint64_t*) override {
    return ofi::kNoTicket;
  }
  bool coherent() const override { return false; }

  bool refuses = false, ends = false, ended = false, fails = false;
  std::uint64_t stored = 0;
  const std::uint8_t* staged = nullptr;
};

}  // namespace

TEST_CASE("an atomic is complete when its result is stored, or cannot be stored", "[ofi][double]") {
  if (!have_double()) return;
  const std::string how = GENERATE("well", "refused", "failing");
  INFO(how);
  SlowAccess access;
  EngineRig rig(false, "cxi", &access);
  const std::uint64_t forty = 40;
  std::memcpy(rig.heap_memory.data() + 64, &forty, sizeof(forty));
  ofi::Operation& operation = rig.operation();
  operation.wqe.kind = nic::WqeKind::kFetchAdd;
  operation.wqe.swap_or_add = 2;
  access.refuses = how == "refused";
  rig.engine.issue(operation, false);
  CHECK_FALSE(rig.engine.progress());
  rig.rails.poll();
  CHECK(rig.word(64) == 42);
  if (how != "refused") {
    CHECK(access.stored == 40);
    // The buffer is its own until it has completed.
    CHECK((access.staged >= operation.scratch &&
           access.staged + 8 <= operation.scratch + ofi::kScratchBytes));
    CHECK_FALSE(rig.engine.progress());
    CHECK_FALSE(operation.done());
    CHECK(rig.changes == 0);
    (how == "well" ? access.ends : access.fails) = true;
    CHECK(rig.engine.progress());
    CHECK_FALSE(rig.engine.progress());
  }
  CHECK(operation.done());
  CHECK(rig.changes == (how == "refused" ? 2 : 1));  // it has failed, it has completed
  CHECK(int{operation.failure.syndrome} == (how == "well" ? 0 : 0x04));
}

TEST_CASE("an atomic by a message is executed after a flush by the target's NICs",
          "[ofi][double]") {
  if (!have_double()) return;
  const bool fails = GENERATE(false, true);
  EngineRig rig;
  ofi::ActiveMessages messages({.rails = rig.rails,
                                .heap = *rig.access,
                                .peers = rig.peers,
                                .memories = rig.memories,
                                .heap_bytes = kHeap,
                                .remote_key = kRemoteKey,
                                .max_queues = 1,
                                .flusher = &rig.engine});
  const std::uint64_t forty = 40;
  std::memcpy(rig.heap_memory.data() + 64, &forty, sizeof(forty));
  ofi::Operation& operation = rig.operation();
  operation.wqe.kind = nic::WqeKind::kFetchAdd;
  operation.wqe.swap_or_add = 2;
  messages.issue(operation, false);
  rig.rails.poll();
  messages.progress();
  CHECK(rig.reads() == kNics);
  CHECK(rig.word(64) == 40);
  CHECK_FALSE(operation.done());
  if (fails) {
    // The answers of these reads are good; those of the next atomic are not.
    rig.rules.error = FI_EACCES;
    ofi::Operation& second = rig.operation();
    second.wqe.kind = nic::WqeKind::kFetchAdd;
    second.wqe.swap_or_add = 2;
    for (int round = 0; round < 2; ++round) rig.rails.poll();
    CHECK(operation.done());
    messages.issue(second, false);
    rig.rails.poll();
    rig.rules.errors = 1;
    messages.progress();
    for (int round = 0; round < 3; ++round) rig.rails.poll();
    CHECK(int{second.failure.syndrome} == 0x13);
    CHECK(rig.word(64) == 42);
    return;
  }
  for (int round = 0; round < 3; ++round) rig.rails.poll();
  CHECK(rig.word(64) == 42);
  CHECK(operation.done());
  CHECK(rig.word(512) == 40);
  CHECK(rig.reads() == kNics);
}

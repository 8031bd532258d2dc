// What NICs have written into the memory of a GPU may be visible later than what is said about it:
// a read by each of them pushes it. The engines alone, over the double, as a PE that reaches itself
// by three NICs.
#include "tests/ofi/engine_rig.h"
#include "tests/unit/base/capture.h"

#include "transport/ofi/active_messages.h"
#include "transport/ofi/message.h"

#include <rdma/fi_errno.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

using namespace gshmem;
using namespace gshmem::test;

TEST_CASE("a flush of the own heap is a read by each NIC", "[ofi][double]") {
  if (!have_double()) return;
  EngineRig rig;
  for (int lap = 1; lap < 3; ++lap) {
    rig.engine.flush_own(rig);
    CHECK(rig.reads() == kNics * static_cast<unsigned>(lap));
    CHECK(rig.flushes == lap - 1);
    rig.lanes.poll();
    CHECK(rig.flushes == lap);
    CHECK_FALSE(rig.why);
    rig.engine.progress();
    rig.lanes.poll();
    CHECK(rig.reads() == kNics * static_cast<unsigned>(lap));
    CHECK(rig.flushes == lap);
  }
}

TEST_CASE("a read of a flush that finds no place, or is given back, is tried again",
          "[ofi][double]") {
  if (!have_double()) return;
  EngineRig rig;
  rig.rules.busy = 100;
  rig.engine.flush_own(rig);
  rig.lanes.poll();
  // What has found no place leaves the engine's own free: there are 1,024 by a NIC.
  for (int round = 0; round < 1100; ++round) rig.engine.progress();
  CHECK((rig.reads() == 0 && rig.flushes == 0));
  rig.rules.busy = 0;
  rig.engine.progress();
  CHECK(rig.reads() == kNics);
  rig.lanes.poll();
  CHECK(rig.flushes == 1);

  rig.rules.error = FI_ENORX;
  rig.rules.errors = 1;
  rig.engine.flush_own(rig);
  rig.lanes.poll();
  CHECK(rig.flushes == 1);
  rig.rules.journals = true;
  rig.engine.progress();
  CHECK(rig.rules.calls() == rig.fetches({0}));  // by the NIC that has given it back
  CHECK(rig.reads() == 2 * kNics + 1);
  rig.lanes.poll();
  CHECK(rig.flushes == 2);
  CHECK_FALSE(rig.why);
}

TEST_CASE("a flush that fails says so once, and the next one does not", "[ofi][double]") {
  if (!have_double()) return;
  EngineRig rig;
  rig.rules.error = FI_EACCES;
  rig.rules.errors = 1;
  rig.engine.flush_own(rig);
  rig.lanes.poll();
  CHECK(rig.flushes == 1);
  CHECK(int{rig.why.syndrome} == 0x13);
  CHECK_THAT(rig.why.text, Catch::Contains("READ of the own heap"));
  rig.engine.flush_own(rig);
  rig.lanes.poll();
  CHECK(rig.flushes == 2);
  CHECK_FALSE(rig.why);
}

TEST_CASE("where data of reads comes late, a read of the own heap follows each", "[ofi][double]") {
  if (!have_double()) return;
  const bool trails = GENERATE(false, true);
  const bool read = GENERATE(false, true);
  INFO((read ? "a read" : "a write") << (trails ? ", late" : ""));
  EngineRig rig(trails);
  ofi::Operation& operation = rig.operation();
  operation.wqe.kind = read ? nic::WqeKind::kRead : nic::WqeKind::kWrite;
  rig.engine.issue(operation, false);
  CHECK(rig.reads() == (read ? 1u : 0u));
  rig.lanes.poll();
  CHECK(rig.changes == 1);
  const bool more = trails && read;
  CHECK(operation.done() == !more);
  if (!more) return;
  CHECK(operation.state == ofi::Operation::State::kBegun);
  rig.rules.busy = 100;
  rig.engine.issue(operation, false);
  CHECK(operation.state == ofi::Operation::State::kBegun);  // no place: again later
  rig.rules.busy = 0;
  rig.rules.journals = true;
  rig.engine.issue(operation, false);
  CHECK(rig.rules.calls() == rig.fetches({0}));
  CHECK(rig.reads() == 2);
  CHECK_FALSE(operation.done());
  rig.lanes.poll();
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

TEST_CASE("an atomic has ended when its result is stored, or cannot be", "[ofi][double]") {
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
  rig.lanes.poll();
  CHECK(rig.word(64) == 42);
  if (how != "refused") {
    CHECK(access.stored == 40);
    // Its own memory, which is no one else's until it has ended.
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
  CHECK(rig.changes == (how == "refused" ? 2 : 1));  // it has failed, it has ended
  CHECK(int{operation.failure.syndrome} == (how == "well" ? 0 : 0x04));
}

TEST_CASE("an atomic by a message is carried out after a flush by the target's NICs",
          "[ofi][double]") {
  if (!have_double()) return;
  const bool fails = GENERATE(false, true);
  EngineRig rig;
  ofi::ActiveMessages messages({.lanes = rig.lanes,
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
  rig.lanes.poll();
  messages.progress();
  CHECK(rig.reads() == kNics);
  CHECK(rig.word(64) == 40);
  CHECK_FALSE(operation.done());
  if (fails) {
    // The answers of these reads are good; those of the next atomic's are not.
    rig.rules.error = FI_EACCES;
    ofi::Operation& second = rig.operation();
    second.wqe.kind = nic::WqeKind::kFetchAdd;
    second.wqe.swap_or_add = 2;
    for (int round = 0; round < 2; ++round) rig.lanes.poll();
    CHECK(operation.done());
    messages.issue(second, false);
    rig.lanes.poll();
    rig.rules.errors = 1;
    messages.progress();
    for (int round = 0; round < 3; ++round) rig.lanes.poll();
    CHECK(int{second.failure.syndrome} == 0x13);
    CHECK(rig.word(64) == 42);
    return;
  }
  for (int round = 0; round < 3; ++round) rig.lanes.poll();
  CHECK(rig.word(64) == 42);
  CHECK(operation.done());
  CHECK(rig.word(512) == 40);
  CHECK(rig.reads() == kNics);
}

TEST_CASE("an immediate for a queue that there is not is told, and counts nowhere",
          "[ofi][double]") {
  if (!have_double()) return;
  const std::uint32_t queue = GENERATE(0u, 1u, 0xffffffu);
  EngineRig rig;
  const ofi::ActiveMessages messages({.lanes = rig.lanes,
                                      .heap = *rig.access,
                                      .peers = rig.peers,
                                      .memories = rig.memories,
                                      .heap_bytes = kHeap,
                                      .remote_key = kRemoteKey,
                                      .max_queues = 1});
  rig.outbound.twin = queue;
  ofi::Operation& operation = rig.operation();
  operation.wqe.kind = nic::WqeKind::kWrite;
  operation.group = 3;
  StderrCapture log;
  rig.engine.issue(operation, false);
  rig.lanes.poll();
  CHECK(operation.done());
  const auto lines = log.writes();
  CHECK(lines.size() == (queue == 0 ? 0 : 1));
  if (queue == 0) return;
  CHECK_THAT(lines.at(0), Catch::Contains(strprintf(
                              "WARN: immediate 0x%x that no PE sends: ignored", 3u << 24 | queue)));
}

TEST_CASE("staged data goes on when a copy has ended, and fails with it", "[ofi][double]") {
  if (!have_double()) return;
  struct Row {
    nic::WqeKind kind;
    ofi::Ticket failing;
    std::uint8_t syndrome;
  };
  using enum nic::WqeKind;
  const Row row = GENERATE(Row{kWrite, 99, 0}, Row{kWrite, 1, 0x04}, Row{kWrite, 2, 0x14},
                           Row{kRead, 99, 0}, Row{kRead, 1, 0x14}, Row{kRead, 2, 0x04},
                           Row{kFetchAdd, 99, 0}, Row{kFetchAdd, 1, 0x14}, Row{kFetchAdd, 2, 0x04});
  INFO(static_cast<int>(row.kind) << ", copy " << row.failing << " fails");
  EngineRig rig;
  StepwiseAccess access(rig.heap_memory);
  ofi::ActiveMessages messages({.lanes = rig.lanes,
                                .heap = access,
                                .peers = rig.peers,
                                .memories = rig.memories,
                                .heap_bytes = kHeap,
                                .remote_key = kRemoteKey,
                                .carries_data = true,
                                .max_queues = 1});
  const auto rounds = [&] {
    for (int round = 0; round < 4; ++round) {
      messages.progress();
      rig.lanes.poll();
    }
  };
  for (std::size_t i = 0; i < 8; ++i) {
    rig.heap_memory[64 + i] = static_cast<std::uint8_t>(10 + i);
    rig.heap_memory[512 + i] = static_cast<std::uint8_t>(50 + i);
  }
  const std::uint64_t there = rig.word(64), here = rig.word(512);
  ofi::Operation& operation = rig.operation();
  operation.wqe.kind = row.kind;
  StderrCapture log;
  messages.issue(operation, false);
  if (row.kind == kWrite) CHECK(messages.awaits(operation) == "1 message(s) being copied");
  rounds();
  for (const ofi::Ticket copy : {ofi::Ticket{1}, ofi::Ticket{2}}) {
    CHECK(access.copies == copy);
    CHECK_FALSE(operation.done());
    CHECK_FALSE(messages.progress());
    (copy == row.failing ? access.failing : access.ended) = copy;
    CHECK(messages.progress() == (copy != row.failing));
    rounds();
    if (copy == row.failing) break;
  }
  CHECK(operation.done());
  CHECK(rig.changes == 1);
  CHECK(int{operation.failure.syndrome} == int{row.syndrome});
  const auto lines = log.writes();
  if (row.syndrome != 0) {
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Catch::Contains("WARN: staging of a message of PE 0: a copy failed"));
    return;
  }
  if (row.kind == kWrite) CHECK(rig.word(64) == here);
  if (row.kind == kRead) CHECK(rig.word(512) == there);
  CHECK(access.copies == 2);
}

TEST_CASE("what goes to a heap in host memory needs no flush, and no warning", "[ofi][double]") {
  if (!have_double()) return;
  using Kind = ofi::MessageKind;
  struct Row {
    const char *provider, *gdr;
    unsigned reads, writes;    ///< calls for a read, and for a word that is stored
    std::optional<Kind> sent;  ///< the message for it
    bool immediates;           ///< of a write before an atomic
  };
  const Row row = GENERATE(
      Row{"efa/efa", "auto", 1, 0, Kind::kAtomic, true},
      Row{"efa/efa-direct", "auto", 1, 1, {}, true}, Row{"verbs;ofi_rxm", "auto", 1, 1, {}, true},
      Row{"cxi", "auto", 1, 1, {}, false}, Row{"tcp;ofi_rxm", "auto", 1, 0, Kind::kAtomic, true},
      Row{"sockets", "auto", 1, 0, Kind::kAtomic, false},
      Row{"efa/efa", "off", 0, 0, Kind::kWrite, false});
  INFO(row.provider << ' ' << row.gdr);
  StderrCapture log;
  Leg leg{.provider = row.provider, .gdr = row.gdr};
  leg.by_hand = true;
  Job job(2, leg);
  FabricDouble& rules = *fabric_double();
  Client& client = job[0].to(1);
  const auto end = [&](std::uint64_t entry) {
    client.ring();
    for (int round = 0; round < 12; ++round)
      for (int pe = 0; pe < 2; ++pe) job[pe].round();
    CHECK(client.has_ended(entry));
  };
  const auto& reads = rules.taken[FabricDouble::kRead];
  const auto& writes = rules.taken[FabricDouble::kWrite];
  end(client.nop());
  const std::uint64_t reads_before = reads, writes_before = writes;
  end(client.read(64, 0, 8));
  CHECK(reads == reads_before + row.reads);
  rules.journals = true;
  end(client.write_inline(64, {1, 2, 3, 4, 5, 6, 7, 8}));
  rules.journals = false;
  CHECK(writes == writes_before + row.writes);
  const auto sent = rules.sent();
  REQUIRE(sent.empty() == !row.sent);
  if (row.sent) {
    ofi::MessageHeader header{};
    std::memcpy(&header, sent[0].data(), sizeof(header));
    CHECK(header.kind == *row.sent);
  }
  client.write(4096, 0, 4096);
  end(client.fetch_add(64, 8, 1));
  CHECK(reads == reads_before + row.reads);
  CHECK((rules.immediate > 0) == row.immediates);
  for (const std::string& line : log.writes())
    CHECK_THAT(line, Catch::Contains("sockets is deprecated"));
}

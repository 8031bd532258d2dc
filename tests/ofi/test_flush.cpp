// What NICs have written into the memory of a GPU may be visible later than what is said about it:
// a read by each of them pushes it. The engines alone, over the double, as a PE that reaches itself
// by three NICs.
#include "tests/ofi/job.h"
#include "tests/unit/base/capture.h"

#include "transport/ofi/active_messages.h"
#include "transport/ofi/provider.h"
#include "transport/ofi/rma.h"

#include <rdma/fi_errno.h>

#include <catch2/catch.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

constexpr std::size_t kNics = 3;
constexpr std::uint64_t kHeap = 4096, kPool = 4096;
constexpr std::uint32_t kRemoteKey = 0x77;

struct FlushRig : ofi::OperationOwner, ofi::FlushSink {
  explicit FlushRig(bool reads_trail = false, const std::string& provider = "efa-direct",
                    ofi::MemoryAccess* other = nullptr)
      : lanes(open(provider)),
        engine({.lanes = lanes,
                .heap = heap,
                .pool = pool,
                .memories = memories,
                .access = other != nullptr ? *other : *access,
                .atomics = ofi::atomic_support(lanes.first().info(), lanes[0].endpoint()),
                .peers = peers,
                .landing = kPool - 8,
                .reads_trail = reads_trail}) {
    peers[0].pe = 0;
    peers[0].heap_base = heap.remote_base;
    peers[0].heap_bytes = kHeap;
    for (std::size_t lane = 0; lane < kNics; ++lane) {
      lanes[lane].insert({lanes[lane].address()});
      peers[0].ways.push_back({lanes[lane].peer(0), heap.keys[lane], 0});
    }
  }
  FlushRig(const FlushRig&) = delete;
  ~FlushRig() {
    lanes.close();
    CHECK(rules.violations().empty());
    rules.reset();
  }
  static ofi::Lanes open(const std::string& provider) {
    fabric_double()->offer({provider});
    fabric_double()->nics = int{kNics};
    std::vector<std::unique_ptr<ofi::Fabric>> fabrics;
    for (ofi::InfoPtr& info : ofi::choose_provider(ofi::Library::get(), {.nics = int{kNics}}))
      fabrics.push_back(std::make_unique<ofi::Fabric>(ofi::Library::get(), std::move(info), 64));
    return ofi::Lanes(std::move(fabrics));
  }
  ofi::LaneMemory registered(std::vector<std::uint8_t>& memory) {
    return lanes.register_memory({.base = memory.data(), .bytes = memory.size()}, ofi::kHeapAccess);
  }
  void changed(ofi::Operation&) override { ++changes; }
  void flushed(const ofi::Failure& failure) override {
    ++flushes;
    why = failure;
  }
  [[nodiscard]] std::uint64_t reads() const { return rules.taken[FabricDouble::kRead]; }
  /// One that the caller fills in.
  ofi::Operation& operation() {
    ofi::Operation& made = *operations.acquire(peers[0]);
    made.wqe.clear();
    made.wqe.length = 8;
    made.wqe.remote_address = 64;
    made.wqe.remote_key = kRemoteKey;
    made.wqe.local.push_back({512, 8, 0});
    made.owner = this;
    made.outbound = &outbound;
    return made;
  }
  [[nodiscard]] std::uint64_t word(std::uint64_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, heap_memory.data() + offset, sizeof(value));
    return value;
  }

  FabricDouble& rules = *fabric_double();
  ofi::Lanes lanes;
  std::vector<std::uint8_t> heap_memory = std::vector<std::uint8_t>(kHeap);
  std::vector<std::uint8_t> pool_memory = std::vector<std::uint8_t>(kPool);
  ofi::LaneMemory heap = registered(heap_memory), pool = registered(pool_memory);
  ofi::Memories memories;
  std::unique_ptr<ofi::MemoryAccess> access =
      ofi::make_memory_access({.base = heap_memory.data(), .bytes = kHeap});
  std::vector<ofi::Peer> peers = std::vector<ofi::Peer>(1);
  ofi::OperationPool operations{pool_memory.data(), 2, 1};
  ofi::Outbound outbound;
  ofi::RmaEngine engine;
  int changes = 0, flushes = 0;
  ofi::Failure why;
};

}  // namespace

TEST_CASE("a flush of the own heap is a read by each NIC", "[ofi][double]") {
  if (!have_double()) return;
  FlushRig rig;
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
  FlushRig rig;
  rig.rules.busy = 100;
  rig.engine.flush_own(rig);
  rig.lanes.poll();
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
  rig.engine.progress();
  CHECK(rig.reads() == 2 * kNics + 1);
  rig.lanes.poll();
  CHECK(rig.flushes == 2);
  CHECK_FALSE(rig.why);
}

TEST_CASE("a flush that fails says so once, and the next one does not", "[ofi][double]") {
  if (!have_double()) return;
  FlushRig rig;
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
  FlushRig rig(trails);
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
  rig.engine.issue(operation, false);
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
};

}  // namespace

TEST_CASE("an atomic has ended when its result is stored, or cannot be", "[ofi][double]") {
  if (!have_double()) return;
  const std::string how = GENERATE("well", "refused", "failing");
  INFO(how);
  SlowAccess access;
  FlushRig rig(false, "cxi", &access);
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
  FlushRig rig;
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
  const std::uint32_t queue = GENERATE(0u, 1u);
  FlushRig rig;
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
  CHECK(lines.size() == queue);
  if (queue == 1)
    CHECK_THAT(lines.at(0), Catch::Contains("WARN: immediate 0x3000001 that no PE sends: ignored"));
}

namespace {

/// Copies that the test ends, one after the other.
struct StepwiseAccess final : ofi::MemoryAccess {
  explicit StepwiseAccess(std::vector<std::uint8_t>& of) : memory(of) {}
  ofi::Staging allocate(std::size_t bytes) override {
    return {static_cast<std::uint8_t*>(std::calloc(bytes, 1)), std::free};
  }
  ofi::Ticket start_write(std::uint64_t offset, const void* from, std::size_t bytes) override {
    std::memcpy(memory.data() + offset, from, bytes);
    return ++copies;
  }
  ofi::Ticket start_read(std::uint64_t offset, void* to, std::size_t bytes) override {
    std::memcpy(to, memory.data() + offset, bytes);
    return ++copies;
  }
  bool done(ofi::Ticket ticket) override {
    if (ticket == failing) throw Error(GSHMEMX_ERROR_CUDA, "a copy failed");
    return ticket <= ended;
  }
  ofi::Ticket start_atomic(std::uint64_t, const nic::Wqe&, std::uint64_t*) override {
    return ++copies;
  }
  bool coherent() const override { return false; }

  std::vector<std::uint8_t>& memory;
  ofi::Ticket copies = 0, ended = 0, failing = 99;
};

}  // namespace

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
  FlushRig rig;
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
  messages.issue(operation, false);
  rounds();
  for (const ofi::Ticket copy : {ofi::Ticket{1}, ofi::Ticket{2}}) {
    CHECK(access.copies == copy);
    CHECK_FALSE(operation.done());
    (copy == row.failing ? access.failing : access.ended) = copy;
    rounds();
    if (copy == row.failing) break;
  }
  CHECK(operation.done());
  CHECK(rig.changes == 1);
  CHECK(int{operation.failure.syndrome} == int{row.syndrome});
  if (row.syndrome != 0) return;
  if (row.kind == kWrite) CHECK(rig.word(64) == here);
  if (row.kind == kRead) CHECK(rig.word(512) == there);
  CHECK(access.copies == 2);
}

// Memory of the program beside the heaps: reached from its first to its last byte, by its own keys,
// from when all PEs have told of it until it is given back.
#include "tests/nic/threads_of_process.h"
#include "tests/ofi/job.h"
#include "tests/unit/base/capture.h"

#include <catch2/catch.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <set>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

struct MemoriesRig {
  explicit MemoriesRig(const Leg& leg) : job(2, by_hand(leg)) {}
  static Leg by_hand(Leg leg) {
    leg.by_hand = true;
    return leg;
  }
  /// Both PEs register the pages that they have beside their heaps.
  void register_all() {
    for (int pe = 0; pe < 2; ++pe) keys[pe] = job[pe].nic().register_memory(job[pe].beside());
  }
  void meet_all() {
    std::vector<std::uint8_t> all;
    for (int pe = 0; pe < 2; ++pe) {
      const auto own = job[pe].nic().memory_info(job[pe].beside());
      all.insert(all.end(), own.begin(), own.end());
    }
    for (int pe = 0; pe < 2; ++pe) job[pe].nic().meet_memory(job[pe].beside(), all);
  }
  /// By the keys of PE 0's memory, and of that at the other end.
  Client& with_keys(int pe) {
    Client& client = job[0].to(pe);
    client.local_key = keys[0].local;
    client.remote_key = keys[pe].remote;
    return client;
  }
  Outcome outcome(Client& client, std::uint64_t entry) {
    client.ring();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (;;) {
      for (int pe = 0; pe < 2; ++pe) job[pe].round();
      const Outcome now = client.wait(entry, 0);
      if (!now.timed_out) return now;
      REQUIRE(std::chrono::steady_clock::now() < limit);
    }
  }

  Job job;
  nic::Keys keys[2];
};

}  // namespace

TEST_CASE("memory beside the heap is reached from its first to its last byte", "[ofi][double]") {
  if (!have_double()) return;
  const Leg leg = GENERATE(Leg{"efa/efa-direct", "auto"}, Leg{"cxi", "auto"}, Leg{"efa/efa", "off"},
                           Leg{.provider = "efa/efa-direct", .gdr = "auto", .nics = 2});
  INFO(leg.name());
  MemoriesRig rig(leg);
  rig.register_all();
  rig.meet_all();
  const nic::Region here = rig.job[0].beside(), there = rig.job[1].beside();
  auto* const mine = static_cast<std::uint8_t*>(here.base);
  auto* const theirs = static_cast<std::uint8_t*>(there.base);
  for (std::uint64_t i = 0; i < here.bytes; ++i) mine[i] = static_cast<std::uint8_t>(i % 251);
  Client& client = rig.with_keys(1);
  const std::uint64_t begin = here.offset, end = begin + here.bytes;
  CHECK(rig.outcome(client, client.write(end - 1, begin, 1)).ok());
  CHECK(theirs[here.bytes - 1] == mine[0]);
  CHECK(rig.outcome(client, client.write(begin, end - 1, 1)).ok());
  CHECK(theirs[0] == mine[here.bytes - 1]);
  const auto all = static_cast<std::uint32_t>(here.bytes);
  CHECK(rig.outcome(client, client.write(begin, begin, all)).ok());
  CHECK(std::memcmp(theirs, mine, here.bytes) == 0);
  theirs[7] = 0xee;
  CHECK(rig.outcome(client, client.read(begin, begin, all)).ok());
  CHECK(std::memcmp(theirs, mine, here.bytes) == 0);
  const std::uint64_t nine = 9;
  std::memcpy(theirs + here.bytes - 8, &nine, 8);
  CHECK(rig.outcome(client, client.fetch_add(end - 8, begin, 5)).ok());
  CHECK(std::memcmp(mine, &nine, 8) == 0);
  CHECK(theirs[here.bytes - 8] == 14);
  CHECK(int{rig.outcome(client, client.write(end - 1, begin, 2)).syndrome} == 0x13);
}

TEST_CASE("a wrong key of memory beside the heap is told with the right one", "[ofi][double]") {
  if (!have_double()) return;
  const bool local = GENERATE(false, true);
  MemoriesRig rig({"efa/efa", "auto"});
  rig.register_all();
  rig.meet_all();
  Client& client = rig.with_keys(1);
  (local ? client.local_key : client.remote_key) ^= 0x10000000;
  StderrCapture log;
  const std::uint64_t at = rig.job[0].beside().offset;
  const Outcome outcome = rig.outcome(client, client.write(at, at, 8));
  CHECK(int{outcome.syndrome} == (local ? 0x04 : 0x13));
  const auto lines = log.writes();
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0],
             Catch::Contains(local ? strprintf("local key 0x%x is not that of the registered "
                                               "memory, 0x%x",
                                               client.local_key, rig.keys[0].local)
                                   : strprintf("remote key 0x%x is not that of PE 1's registered "
                                               "memory, 0x%x",
                                               client.remote_key, rig.keys[1].remote)));
}

TEST_CASE("the memory of a NIC is the heap and what was registered beside it", "[ofi][double]") {
  if (!have_double()) return;
  MemoriesRig rig({"efa/efa", "auto"});
  nic::Nic& nic = rig.job[0].nic();
  nic::Region other = rig.job[0].beside();
  other.offset = 0;
  CHECK_THROWS_WITH(nic.register_memory(other), Catch::Contains("the heap is not that of"));
  nic::Region shorter{.base = rig.job[0].heap(), .bytes = kHeapBytes - 4096};
  CHECK_THROWS_WITH(nic.register_memory(shorter), Catch::Contains("the heap is not that of"));
  StderrCapture log;
  nic.unregister_memory(rig.job[0].beside());  // nobody has registered it
  const auto lines = log.writes();
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains("WARN: network: memory is not unregistered: "));
  other.kind = nic::MemoryKind::kGpu;
  CHECK_THROWS_WITH(nic.use_queue_memory(other), Catch::Contains("GSHMEM_QUEUE_MEMORY=gpu: "));
}

TEST_CASE("memory that was not told of, or is given back, is none", "[ofi][double]") {
  if (!have_double()) return;
  const std::string gdr = GENERATE("auto", "off");
  const int when = GENERATE(0, 1, 2, 3);  // before it is told of, while it is, after it; again
  INFO(gdr << ' ' << when);
  MemoriesRig rig({"efa/efa", gdr});
  rig.register_all();
  Client& client = rig.with_keys(1);
  if (when > 0) rig.meet_all();
  if (when > 1)
    for (int pe = 0; pe < 2; ++pe) rig.job[pe].nic().unregister_memory(rig.job[pe].beside());
  if (when > 2) {
    rig.register_all();  // by other keys
    rig.meet_all();
  }
  client.local_key = rig.job[0].to(0).local_key;
  const std::uint64_t write = client.write(rig.job[0].beside().offset, 0, 8);
  CHECK(int{rig.outcome(client, write).syndrome} == (when == 1 ? 0 : 0x13));
  Client& own = rig.job[0].to(0);
  own.local_key = rig.keys[0].local;
  const std::uint64_t read = own.write(64, rig.job[0].beside().offset, 8);
  const bool there = when != 2;
  CHECK(int{rig.outcome(own, read).syndrome} == (there ? 0 : 0x04));
}

TEST_CASE("no key of memory beside the heap is one of a heap, or none", "[ofi][double]") {
  if (!have_double()) return;
  MemoriesRig rig({"efa/efa", "off"});  // staged, where only the executor knows them
  const Client& own = rig.job[0].to(0);
  std::set<std::uint32_t> keys{0, own.local_key, own.remote_key};
  const nic::Region region = rig.job[0].beside();
  constexpr int kAll = 0x4bff;  // then they come again
  for (int i = 0; i < kAll; ++i) {
    const nic::Keys made = rig.job[0].nic().register_memory(region);
    REQUIRE(made.local == made.remote);
    REQUIRE(keys.insert(made.local).second);
    rig.job[0].nic().unregister_memory(region);
  }
  CHECK(keys.count(rig.job[0].nic().register_memory(region).local) == 1);
}

namespace {

/// What the double has been asked to close since the last time.
std::vector<std::string> closed() {
  std::vector<std::string> all;
  for (const std::string& call : fabric_double()->calls())
    if (call.rfind("close ", 0) == 0) all.push_back(call.substr(6));
  return all;
}

}  // namespace

TEST_CASE("memory beside the heap is the provider's until it is given back", "[ofi][double]") {
  if (!have_double()) return;
  MemoriesRig rig({"efa/efa", "auto"});
  fabric_double()->journals = true;
  rig.register_all();
  CHECK(closed().empty());
  rig.job[0].nic().unregister_memory(rig.job[0].beside());
  CHECK(closed() == std::vector<std::string>{"region"});
  rig.job[1].nic().unregister_memory(rig.job[1].beside());
  CHECK(closed() == std::vector<std::string>{"region"});
  fabric_double()->journals = false;
}

TEST_CASE("after its end a NIC leaves memory and doorbells alone", "[ofi][double]") {
  if (!have_double()) return;
  // Where regions are bound to endpoints they go first, else the endpoint, which may look at them.
  const auto [provider, endpoint_last] =
      GENERATE(table<std::string, bool>({{"efa/efa", false}, {"cxi", true}}));
  const bool stops = GENERATE(true, false);
  const Leg leg{.provider = provider, .gdr = "auto"};
  fabric_double()->offer({endpoint_last ? "cxi" : "efa"});
  fabric_double()->journals = true;
  const auto boots = bootstrap::create_threads(1, 30);
  std::thread([] {}).join();  // TSan has one of its own from the first one on
  const std::size_t before = threads().size();
  auto pe = std::make_unique<Pe>(*boots[0], config_of(leg, 20), kDepth, leg);
  const nic::Region doorbells = pe->nic().doorbell_block();
  std::vector<std::string> order(endpoint_last ? 2 : 5, "region");  // with buffers of messages
  order.insert(endpoint_last ? order.end() : order.begin(), "endpoint");
  (void)closed();
  if (stops) {
    pe->nic().stop();
    CHECK(closed() == order);
    for (int ms = 0; ms < 2000 && threads().size() > before; ++ms) usleep(1000);
    CHECK(threads().size() == before);
  }
  pe.reset();
  CHECK(closed() == (stops ? std::vector<std::string>{} : order));
  const int gone = msync(doorbells.base, doorbells.bytes, MS_ASYNC) != 0 ? errno : 0;
  CHECK(gone == ENOMEM);
  CHECK(fabric_double()->violations().empty());
  fabric_double()->reset();
}

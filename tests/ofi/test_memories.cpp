// Tests memory of the program beside the heaps: reached from its first to its last byte, by its own
// keys, from its registration on all PEs until its release.
#include "tests/threads_of_process.h"
#include "tests/ofi/job.h"
#include "tests/capture.h"

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
  /// Both PEs register the pages beside their heaps.
  void register_all() {
    for (int pe = 0; pe < 2; ++pe) keys[pe] = job[pe].nic().register_memory(job[pe].beside());
  }
  void exchange_all() {
    std::vector<std::uint8_t> all;
    for (int pe = 0; pe < 2; ++pe) {
      const auto own = job[pe].nic().memory_info(job[pe].beside());
      all.insert(all.end(), own.begin(), own.end());
    }
    for (int pe = 0; pe < 2; ++pe) job[pe].nic().set_memory_infos(job[pe].beside(), all);
  }
  /// Uses the keys of PE 0's memory, and of that of the peer.
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
  rig.exchange_all();
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

TEST_CASE("a wrong key of memory beside the heap is reported with the right one", "[ofi][double]") {
  if (!have_double()) return;
  const bool local = GENERATE(false, true);
  MemoriesRig rig({"efa/efa", "auto"});
  rig.register_all();
  rig.exchange_all();
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

TEST_CASE("memory that is not registered yet, or no longer, is refused", "[ofi][double]") {
  if (!have_double()) return;
  const std::string gdr = GENERATE("auto", "off");
  const int when = GENERATE(0, 1, 2, 3);  // before, during and after its registration; again
  INFO(gdr << ' ' << when);
  MemoriesRig rig({"efa/efa", gdr});
  rig.register_all();
  Client& client = rig.with_keys(1);
  if (when > 0) rig.exchange_all();
  if (when > 1)
    for (int pe = 0; pe < 2; ++pe) rig.job[pe].nic().unregister_memory(rig.job[pe].beside());
  if (when > 2) {
    rig.register_all();  // by other keys
    rig.exchange_all();
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

// Connections are there when queues have started: providers make them at the first operation to a
// peer, and may call CUDA for it, which waits for kernels.
#include "tests/ofi/engine_rig.h"
#include "tests/ofi/job.h"
#include "tests/patience.h"

#include "transport/ofi/probes.h"

#include <rdma/fi_errno.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::test;

namespace {

/// The error of a job of one PE that cannot reach itself.
std::string failure_of(std::vector<std::pair<std::string, std::string>> variables) {
  auto boots = bootstrap::create_threads(1, 30);
  const Leg leg{.provider = "efa/efa", .gdr = "auto"};
  fabric_double()->offer({"efa"});
  std::string what;
  try {
    const Pe pe(*boots[0], config_of(leg, 20, std::move(variables)), kDepth, leg);
  } catch (const Error& error) {
    what = error.what();
  }
  fabric_double()->reset();
  return what;
}

}  // namespace

TEST_CASE("no connection is made after queues have started", "[ofi][double]") {
  if (!have_double()) return;
  const Leg leg = GENERATE(
      Leg{"efa/efa-direct", "auto"}, Leg{"verbs;ofi_rxm", "auto"}, Leg{"tcp;ofi_rxm", "off"},
      Leg{.provider = "cxi", .gdr = "auto", .busy = true, .adverse = true, .nics = 3});
  INFO(leg.name());
  constexpr int kPes = 3;
  constexpr std::uint32_t kLarge = 1 << 18;  // by all NICs
  Job job(kPes, leg);
  const auto& connections = fabric_double()->connections;
  CHECK(connections == static_cast<std::uint64_t>(kPes * kPes * leg.nics));
  for (int me = 0; me < kPes; ++me)
    for (int pe = 0; pe < kPes; ++pe) {
      Client& client = job[me].to(pe);
      const auto slot = static_cast<std::uint64_t>(8 * me);
      client.write(kLarge, 0, kLarge);
      client.fetch_add(slot, 512 + slot, 1);
      REQUIRE(client.ring_and_wait(client.read(2 * kLarge, 3 * kLarge, kLarge)).ok());
    }
  CHECK(connections == static_cast<std::uint64_t>(kPes * kPes * leg.nics));
}

TEST_CASE("a queue that is made later works, and greets nobody again", "[ofi][double]") {
  if (!have_double()) return;
  Leg leg{.provider = "efa/efa", .gdr = "auto"};
  leg.by_hand = true;
  Job job(1, leg);
  const auto ends = [&](Client& client) {
    const std::uint64_t write = client.write(64, 0, 8);
    client.ring();
    for (int round = 0; round < 4; ++round) job[0].round();
    return client.has_ended(write);
  };
  REQUIRE(ends(job[0].to(0)));
  const std::uint64_t greetings = fabric_double()->taken[FabricDouble::kRead];
  CHECK(greetings == 1);
  Client& later = job[0].add_queue();
  CHECK(ends(later));
  CHECK(ends(job[0].to(0)));
  CHECK(ends(later));
  CHECK(fabric_double()->taken[FabricDouble::kRead] == greetings);
}

TEST_CASE("what a provider adds to the name of an error is told", "[ofi][double]") {
  if (!have_double()) return;
  FabricDouble& rules = *fabric_double();
  const auto text = [&](const char* detail) {
    rules.detail = detail;
    rules.error = FI_EHOSTUNREACH;
    rules.errors = 1;
    const std::string what = failure_of({});
    return what.substr(0, what.find('\n'));
  };
  CHECK(text("status 7") == "PE 0 cannot be reached: No route to host (status 7)");
  for (const char* nothing : {"", "No route to host", static_cast<const char*>(nullptr)})
    CHECK(text(nothing) == "PE 0 cannot be reached: No route to host");
}

TEST_CASE("who cannot be reached is an error of the start, with its number", "[ofi][double]") {
  if (!have_double()) return;
  FabricDouble& rules = *fabric_double();
  SECTION("what would go by another try is tried") {
    rules.error = FI_ENORX;
    rules.errors = 3;
    CHECK(failure_of({}).empty());
  }
  SECTION("an error of the provider") {
    rules.error = FI_EHOSTUNREACH;
    rules.errors = 1;
    CHECK_THAT(failure_of({}), Catch::Contains("PE 0 cannot be reached: "));
  }
  SECTION("a refused receive") {
    rules.receive_refusal = FI_EIO;
    CHECK_THAT(failure_of({}), Catch::Contains("fi_recv: Input/output error. The endpoint is lost; "
                                               "restart the job"));
  }
  SECTION("a late answer is one where neither limits the time") {
    rules.rtt = 50'000'000;
    CHECK(failure_of({{"GSHMEM_BOOTSTRAP_TIMEOUT", "0"}, {"GSHMEM_TIMEOUT", "0"}}).empty());
  }
  SECTION("no answer within the shorter one of two limits, of which 0 is none") {
    const auto [start, any] = GENERATE(table<std::string, std::string>(
        {{"0.2", "20"}, {"20", "0.2"}, {"0", "0.2"}, {"0.2", "0"}}));
    rules.rtt = 3600ll * 1'000'000'000;
    CHECK_THAT(failure_of({{"GSHMEM_BOOTSTRAP_TIMEOUT", start}, {"GSHMEM_TIMEOUT", any}}),
               Catch::Contains("PE 0 has not answered over efa for 0.2 s"));
  }
}

TEST_CASE("an executor that breaks before anyone has answered ends the start at once",
          "[ofi][double]") {
  if (!have_double()) return;
  FabricDouble& rules = *fabric_double();
  rules.rtt = 3600ll * 1'000'000'000;
  std::thread breaks([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    rules.broken = FI_EIO;
  });
  const auto begin = std::chrono::steady_clock::now();
  CHECK_THAT(failure_of({{"GSHMEM_BOOTSTRAP_TIMEOUT", "20"}}),
             Catch::Contains("fi_cq_read: Input/output error"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(kPatience));
  breaks.join();
  rules.reset();
}

TEST_CASE("a peer that queues lead to later is greeted, and no other one again", "[ofi][double]") {
  if (!have_double()) return;
  EngineRig rig;
  std::vector<ofi::Peer> peers(2, rig.peers[0]);
  peers[1].pe = 1;
  for (ofi::Peer& peer : peers)
    for (std::size_t lane = 0; lane < kNics; ++lane) {
      peer.ways[lane].probe_key = rig.pool.keys[lane];
      peer.probe_base = rig.pool.remote_base;
    }
  ofi::Probes probes(rig.lanes, peers, rig.pool, kPool - 32);
  for (unsigned lap = 1; lap < 3; ++lap) {
    probes.expect(peers[lap - 1]);
    CHECK(probes.progress());
    CHECK_FALSE(probes.progress());
    CHECK(rig.reads() == kNics * lap);
    rig.lanes.poll();
    probes.wait(std::chrono::seconds(20));
  }
}

TEST_CASE("an executor whose greetings are refused has nothing to do", "[ofi][double]") {
  if (!have_double()) return;
  Leg leg{.provider = "cxi", .gdr = "auto"};
  leg.by_hand = true;
  Job job(2, leg);
  fabric_double()->busy = 100;
  for (int round = 0; round < 3; ++round) CHECK_FALSE(job[0].round());
  fabric_double()->busy = 0;
  CHECK(job[0].round());
}

TEST_CASE("queues that are made after the endpoint is lost fail, and not their start",
          "[ofi][double]") {
  if (!have_double()) return;
  Job job(1, {"efa/efa", "auto"});
  FabricDouble& rules = *fabric_double();
  rules.broken = FI_EIO;
  for (int ms = 0; ms < 20000 && job[0].errors().empty(); ++ms)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  REQUIRE(job[0].errors().size() == 1);
  CHECK_NOTHROW(job[0].nic().start());
  CHECK(int{job[0].to(0).ring_and_wait(job[0].to(0).write(64, 0, 8)).syndrome} == 0x15);
  rules.broken = 0;
}

TEST_CASE("answers to probes harm no operation under way", "[ofi][double]") {
  if (!have_double()) return;
  constexpr int kPes = 12;  // whose shares are all operations, and of a queue 64 at a time
  Leg leg{.provider = "efa/efa-direct", .gdr = "auto"};
  leg.by_hand = true;
  Job job(kPes, leg);
  FabricDouble& rules = *fabric_double();
  const auto begun = std::chrono::steady_clock::now();
  const auto round_at = [&](int ms) { job[0].round(begun + std::chrono::milliseconds(ms)); };
  for (int round = 0; round < 3; ++round) round_at(0);  // greetings
  // As many operations as there are, too long for the call. Those to all but the last PE are under
  // way for ever, those to that one until the others have answered.
  const std::vector<std::uint8_t> payload(100, 0xa5);
  constexpr std::uint64_t kStep = 128, kEnd = 64 * kStep;
  Client& last = job[0].to(kPes - 1);
  std::uint64_t write = 0;
  for (int pe = 0; pe < kPes; ++pe) {
    const bool is_last = pe == kPes - 1;
    rules.rtt = is_last ? 0 : 3600ll * 1'000'000'000;
    if (is_last) rules.held = job[pe].heap();
    for (std::uint64_t at = 0; at < kEnd; at += kStep)
      write = job[0].to(pe).write_inline(at, payload);
    job[0].to(pe).ring();
    round_at(0);
  }
  const std::uint64_t probes = rules.taken[FabricDouble::kRead];
  for (const int ms : {520, 540}) round_at(ms);
  CHECK(rules.taken[FabricDouble::kRead] >= probes + kPes - 1);
  rules.held = nullptr;
  for (int ms = 560; ms < 800; ms += 20) round_at(ms);
  CHECK(last.has_ended(write));
  for (std::uint64_t at = 0; at < kEnd; at += kStep)
    CHECK(std::equal(payload.begin(), payload.end(), job[kPes - 1].heap() + at));
}

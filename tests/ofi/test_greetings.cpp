// Connections exist when queues have started. Providers make them at the first operation to a peer,
// and may call CUDA for it, which waits for kernels.
#include "tests/ofi/engine_rig.h"
#include "tests/ofi/job.h"
#include "tests/patience.h"

#include "transport/ofi/liveness.h"

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

/// Returns the error of a job of one PE that cannot reach itself.
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

TEST_CASE("a queue that is made later works, and sends no greeting again", "[ofi][double]") {
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

TEST_CASE("a PE that cannot be reached is an error of the start that names it", "[ofi][double]") {
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

TEST_CASE("a peer of later queues gets a greeting, and no other peer gets a second one",
          "[ofi][double]") {
  if (!have_double()) return;
  EngineRig rig;
  std::vector<ofi::Peer> peers(2, rig.peers[0]);
  peers[1].pe = 1;
  for (ofi::Peer& peer : peers)
    for (std::size_t rail = 0; rail < kNics; ++rail) {
      peer.routes[rail].probe_key = rig.pool.keys[rail];
      peer.probe_base = rig.pool.remote_base;
    }
  ofi::Liveness liveness(rig.rails, peers, rig.pool, kPool - 32);
  for (unsigned lap = 1; lap < 3; ++lap) {
    liveness.expect(peers[lap - 1]);
    CHECK(liveness.progress());
    CHECK_FALSE(liveness.progress());
    CHECK(rig.reads() == kNics * lap);
    rig.rails.poll();
    liveness.wait(std::chrono::seconds(20));
  }
}

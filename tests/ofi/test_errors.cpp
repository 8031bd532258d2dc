// Every error becomes a completion with its syndrome, which remains, and no later entry is
// executed.
#include "tests/ofi/job.h"

#include <rdma/fi_errno.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <thread>

using namespace gshmem;
using namespace gshmem::test;

namespace {

constexpr std::uint64_t kCanary = 100000;

/// Posts a good write, then the bad entry, then a write that must not be executed.
template <class Bad>
void check(std::uint8_t syndrome, Bad bad) {
  const Leg leg = GENERATE(from_range(legs()));
  INFO(leg.name());
  Job job(2, leg);
  Client& client = job[0].to(1);
  job[0].at<std::uint64_t>(0) = 42;
  client.write(64, 0, 8);
  const std::uint64_t index = bad(client);
  const std::uint32_t good_key = client.remote_key;
  client.remote_key = good_key;
  const std::uint64_t behind = client.write(kCanary, 0, 8);
  client.ring();
  const Outcome outcome = client.wait(behind);
  CHECK(int(outcome.syndrome) == int(syndrome));
  CHECK(outcome.index == static_cast<std::uint16_t>(index));
  CHECK(job[1].at<std::uint64_t>(64) == 42);
  // Later doorbells change nothing, and other queues still work.
  client.write(kCanary, 0, 8);
  client.ring();
  REQUIRE(job[1].to(0).ring_and_wait(job[1].to(0).write(72, 64, 8)).ok());
  CHECK(job[0].at<std::uint64_t>(72) == 42);
  CHECK(int(client.wait(behind).syndrome) == int(syndrome));
  CHECK(client.wait(behind).index == static_cast<std::uint16_t>(index));
  CHECK(job[1].at<std::uint64_t>(kCanary) == 0);
}

}  // namespace

TEST_CASE("a queue whose depth is no power of two is an error that names it", "[ofi][double]") {
  if (!have_double()) return;
  auto boots = bootstrap::create_threads(1, 30);
  const Leg leg{"efa/efa", "auto"};
  fabric_double()->offer({"efa"});
  CHECK_THROWS_WITH(Pe(*boots[0], config_of(leg, 20), 63, leg),
                    Catch::Contains("a queue of 63 entries, which is no power of two"));
  fabric_double()->reset();
}

TEST_CASE("a wrong remote key is a remote access error", "[ofi]") {
  if (!have_libfabric()) return;
  check(0x13, [](Client& client) {
    client.remote_key ^= 1;
    const std::uint64_t index = client.write(64, 0, 8);
    client.remote_key ^= 1;
    return index;
  });
}

TEST_CASE("an access beyond the remote heap is a remote access error", "[ofi]") {
  if (!have_libfabric()) return;
  check(0x13, [](Client& client) { return client.read(kHeapBytes - 4, 0, 8); });
}

TEST_CASE("a remote address that wraps is a remote access error", "[ofi]") {
  if (!have_libfabric()) return;
  check(0x13, [](Client& client) { return client.write(~std::uint64_t{0} - 3, 0, 8); });
}

TEST_CASE("a wrong local key is a local protection error", "[ofi]") {
  if (!have_libfabric()) return;
  check(0x04, [](Client& client) {
    client.local_key ^= 1;
    const std::uint64_t index = client.write(64, 0, 8);
    client.local_key ^= 1;
    return index;
  });
}

TEST_CASE("an access beyond the local heap is a local protection error", "[ofi]") {
  if (!have_libfabric()) return;
  check(0x04, [](Client& client) { return client.fetch_add(64, kHeapBytes - 4, 8); });
}

TEST_CASE("an atomic that is not aligned is a remote request error", "[ofi]") {
  if (!have_libfabric()) return;
  check(0x12, [](Client& client) { return client.fetch_add(68, 0, 1); });
}

TEST_CASE("an entry that cannot be decoded is a local operation error", "[ofi]") {
  if (!have_libfabric()) return;
  check(0x02, [](Client& client) {
    return client.raw({0, 0, 0, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0x08, 0, 0, 0, 0});  // SEND
  });
}

TEST_CASE("an entry with another's index is a local operation error", "[ofi]") {
  if (!have_libfabric()) return;
  check(0x02, [](Client& client) {
    const std::uint8_t number = static_cast<std::uint8_t>(client.number());
    return client.raw({0, 0x77, 0x77, 0, 0, 1, number, 1, 0, 0, 0, 0x08, 0, 0, 0, 0}, false);
  });
}

TEST_CASE("a doorbell of another queue is a local operation error", "[ofi]") {
  if (!have_libfabric()) return;
  const Leg leg = GENERATE(from_range(legs()));
  Job job(2, leg);
  Client& client = job[0].to(1);
  const std::uint64_t index = client.write(64, 0, 8);
  client.ring(abi::doorbell_value(1, client.number() + 1));
  CHECK(int(client.wait(index).syndrome) == 0x02);
}

TEST_CASE("a doorbell far ahead is a local operation error", "[ofi]") {
  if (!have_libfabric()) return;
  const Leg leg = GENERATE(from_range(legs()));
  Job job(2, leg);
  Client& client = job[0].to(1);
  const std::uint64_t index = client.write(64, 0, 8);
  client.ring(abi::doorbell_value(kDepth + 1, client.number()));
  CHECK(int(client.wait(index).syndrome) == 0x02);
}

TEST_CASE("an executor that breaks reports it once, and fails all operations", "[ofi][double]") {
  if (!have_double()) return;
  const std::string gdr = GENERATE("auto", "off");
  Leg leg{.provider = "efa/efa", .gdr = gdr};
  leg.by_hand = true;
  Job job(2, leg);
  Pe& pe = job[0];
  auto now = std::chrono::steady_clock::now();
  const auto syndrome_of = [&](Client& client) {
    const std::uint64_t entry = client.write(64, 0, 8);
    client.ring();
    for (int i = 0; i < 3; ++i) pe.round(now += std::chrono::milliseconds(30));
    return int{client.wait(entry, 0).syndrome};
  };
  const std::uint64_t pending = pe.to(1).write(64, 0, 8);
  pe.to(1).ring();
  pe.round(now);
  fabric_double()->broken = FI_EIO;
  for (Client* const client : {&pe.to(1), &pe.to(0)}) CHECK(syndrome_of(*client) == 0x15);
  CHECK(int{pe.to(1).wait(pending, 0).syndrome} == 0x15);
  CHECK_FALSE(pe.round(now));  // and it has nothing to do
  const auto errors = pe.errors();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].first == -1);
  CHECK(errors[0].second.find("fi_cq_read") != std::string::npos);
  CHECK(errors[0].second.find("The endpoint is lost; restart the job") != std::string::npos);
  fabric_double()->broken = 0;
}

TEST_CASE("an executor that cannot read an error breaks, and reports it", "[ofi][double]") {
  if (!have_double()) return;
  Leg leg{.provider = "efa/efa", .gdr = "auto"};
  leg.by_hand = true;
  Job job(1, leg);
  for (int round = 0; round < 3; ++round) job[0].round();  // greetings
  FabricDouble& rules = *fabric_double();
  rules.error = FI_EACCES;
  rules.errors = 1;
  rules.no_error = FI_EIO;
  const std::uint64_t entry = job[0].to(0).write(64, 0, 8);
  job[0].to(0).ring();
  auto now = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) job[0].round(now += std::chrono::milliseconds(30));
  CHECK(int{job[0].to(0).wait(entry, 0).syndrome} == 0x15);
  const auto errors = job[0].errors();
  REQUIRE(errors.size() == 1);
  CHECK_THAT(errors[0].second, Catch::Contains("fi_cq_readerr: Input/output error. The endpoint is "
                                               "lost; restart the job"));
}

TEST_CASE("providers and interfaces that do not exist are named", "[ofi][tcp]") {
  if (!have_real_libfabric()) return;
  for (const char* provider : {"nothing", "shm"}) {
    INFO(provider);
    try {
      Job job(2, {provider, "auto"});
      FAIL("opened");
    } catch (const Error& error) {
      const std::string what = error.what();
      INFO(what);
      CHECK(what.find(std::string("GSHMEM_OFI_PROVIDER=\"") + provider) != std::string::npos);
      CHECK(what.find("tcp;ofi_rxm") != std::string::npos);
      CHECK(what.find("udp has no FI_") != std::string::npos);
      CHECK(what.find("is usable, but was not asked for") != std::string::npos);
    }
  }
}

TEST_CASE("the first usable provider is used, on an interface by its name", "[ofi][tcp]") {
  if (!have_real_libfabric()) return;
  auto boots = bootstrap::create_threads(1, 30);
  const Config config = config_of({"", "auto"}, 20, {{"GSHMEM_OFI_INTERFACE", "lo"}});
  Pe pe(*boots[0], config);
  INFO(pe.nic().describe());
  CHECK(pe.nic().describe().find("127.0.0.1") != std::string::npos);
  pe.at<std::uint64_t>(0) = 7;
  REQUIRE(pe.to(0).ring_and_wait(pe.to(0).write(8, 0, 8)).ok());
  CHECK(pe.at<std::uint64_t>(8) == 7);
  CHECK(pe.nic().limits().coherent_atomics);  // the target's CPU executes them
  CHECK(pe.nic().doorbell_block().bytes >= 4096);
}

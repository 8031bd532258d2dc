// Writes and reads of all shapes transfer the right bytes, over both paths and providers.
#include "tests/ofi/job.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <random>

using namespace gshmem;
using namespace gshmem::test;

namespace {

void fill(std::uint8_t* to, std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::generate(to, to + bytes, [&] { return static_cast<std::uint8_t>(random()); });
}

std::vector<Leg> busy_legs() {
  std::vector<Leg> all = data_legs();
  all.erase(std::remove_if(all.begin(), all.end(), [](const Leg& leg) { return !leg.busy; }),
            all.end());
  return all;
}

}  // namespace

TEST_CASE("writes and reads of all sizes arrive", "[ofi]") {
  if (!have_libfabric()) return;
  const Leg leg = GENERATE(from_range(data_legs()));
  INFO(leg.name());
  Job job(2, leg);
  const std::uint64_t half = kHeapBytes / 2;
  fill(job[0].heap(), half, 1);
  Client& client = job[0].to(1);
  for (const std::uint32_t bytes :
       {1u, 3u, 4u, 8u, 64u, 1000u, 4096u, 65536u, 65537u, 200000u, 1500000u}) {
    INFO(bytes);
    const std::uint64_t offset = bytes % 13;
    std::fill_n(job[1].heap(), bytes + 64, std::uint8_t{0xee});
    REQUIRE(client.ring_and_wait(client.write(16 + offset, offset, bytes)).ok());
    CHECK(std::equal(job[0].heap() + offset, job[0].heap() + offset + bytes,
                     job[1].heap() + 16 + offset));
    CHECK(job[1].at<std::uint8_t>(15 + offset) == 0xee);
    CHECK(job[1].at<std::uint8_t>(16 + offset + bytes) == 0xee);
    std::fill_n(job[0].heap() + half, bytes + 1, std::uint8_t{0});
    REQUIRE(client.ring_and_wait(client.read(16 + offset, half, bytes)).ok());
    CHECK(std::equal(job[0].heap() + offset, job[0].heap() + offset + bytes, job[0].heap() + half));
    CHECK(job[0].at<std::uint8_t>(half + bytes) == 0);
  }
}

TEST_CASE("inline payload, gather lists, nops and a PE's own heap", "[ofi]") {
  if (!have_libfabric()) return;
  const Leg leg = GENERATE(from_range(data_legs()));
  INFO(leg.name());
  Job job(2, leg);
  fill(job[0].heap(), 4096, 2);
  for (const int target : {1, 0}) {
    INFO("target " << target);
    Client& client = job[0].to(target);
    for (const std::size_t bytes : {1u, 12u, 28u, 29u, 220u}) {
      std::vector<std::uint8_t> payload(bytes);
      std::iota(payload.begin(), payload.end(), std::uint8_t(bytes));
      REQUIRE(client.ring_and_wait(client.write_inline(9000, payload)).ok());
      CHECK(std::equal(payload.begin(), payload.end(), job[target].heap() + 9000));
    }
    std::uint64_t last = 0;  // of several pending entries
    const auto payload_of = [](std::uint64_t i) {
      return std::vector<std::uint8_t>(220, static_cast<std::uint8_t>(i + 1));
    };
    for (std::uint64_t i = 0; i < 8; ++i)
      last = client.write_inline(10000 + 256 * i, payload_of(i));
    REQUIRE(client.ring_and_wait(last).ok());
    for (std::uint64_t i = 0; i < 8; ++i) {
      const std::vector<std::uint8_t> payload = payload_of(i);
      CHECK(std::equal(payload.begin(), payload.end(), job[target].heap() + 10000 + 256 * i));
    }
    REQUIRE(client
                .ring_and_wait(
                    client.gather(abi::Opcode::kRdmaWrite, 20000, {{0, 100}, {1000, 7}, {50, 300}}))
                .ok());
    const std::array<std::uint8_t, 12> head = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    REQUIRE(client.ring_and_wait(client.write_both(9000, head, {5, 900})).ok());
    CHECK(std::equal(head.begin(), head.end(), job[target].heap() + 9000));
    CHECK(std::equal(job[0].heap() + 5, job[0].heap() + 905, job[target].heap() + 9012));
    std::vector<std::uint8_t> expected(job[0].heap(), job[0].heap() + 100);
    expected.insert(expected.end(), job[0].heap() + 1000, job[0].heap() + 1007);
    expected.insert(expected.end(), job[0].heap() + 50, job[0].heap() + 350);
    CHECK(std::equal(expected.begin(), expected.end(), job[target].heap() + 20000));
    REQUIRE(client
                .ring_and_wait(
                    client.gather(abi::Opcode::kRdmaRead, 20000, {{40000, 107}, {41000, 300}}))
                .ok());
    CHECK(std::equal(expected.begin(), expected.begin() + 107, job[0].heap() + 40000));
    CHECK(std::equal(expected.begin() + 107, expected.end(), job[0].heap() + 41000));
    REQUIRE(client.ring_and_wait(client.nop()).ok());
  }
}

TEST_CASE("a DUMP reads local memory, and sends nothing", "[ofi]") {
  if (!have_libfabric()) return;
  Job job(2, legs().front());
  Client& client = job[0].to(1);
  const auto dump = [&](std::uint8_t key) {
    return client.raw({0, 0, 0, 0x23, 0,    0, 0, 0,   0, 0, 0, 8, 0, 0, 0, 0,  //
                       0, 0, 0, 8,    0x4c, 0, 0, key, 0, 0, 0, 0, 0, 0, 0, 64});
  };
  CHECK(client.ring_and_wait(dump(0)).ok());
  CHECK(client.ring_and_wait(client.write(64, 0, 8)).ok());
  CHECK(int{client.ring_and_wait(dump(1)).syndrome} == 0x04);
}

TEST_CASE("a queue wraps many times and completes in order", "[ofi]") {
  if (!have_libfabric()) return;
  const Leg leg = GENERATE(from_range(data_legs()));
  INFO(leg.name());
  Job job(2, leg, 20 * gshmem::test::kPatience, 64);
  Client& client = job[0].to(1);
  constexpr std::uint64_t kWords = 1000;
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < kWords; ++i) {
    job[0].at<std::uint64_t>(i * 8) = i + 1;
    last = client.write(i * 8, i * 8, 8, i % 4 == 3 ? kSignalled : kPlain);
    if (i % 4 == 3) client.ring();
  }
  const Outcome outcome = client.wait(last);
  REQUIRE(outcome.ok());
  CHECK(outcome.index == static_cast<std::uint16_t>(last));
  for (std::uint64_t i = 0; i < kWords; ++i) REQUIRE(job[1].at<std::uint64_t>(i * 8) == i + 1);
}

TEST_CASE("three PEs write to each other at once", "[ofi]") {
  if (!have_libfabric()) return;
  const Leg leg = GENERATE(from_range(data_legs()));
  INFO(leg.name());
  constexpr int kPes = 3;
  constexpr std::uint32_t kBytes = 100000;
  Job job(kPes, leg);
  std::uint64_t index[kPes][kPes];
  for (int me = 0; me < kPes; ++me) fill(job[me].heap(), kBytes, unsigned(me) + 7);
  for (int me = 0; me < kPes; ++me)
    for (int pe = 0; pe < kPes; ++pe) {
      index[me][pe] = job[me].to(pe).write(std::uint64_t(me + 1) * 200000, 0, kBytes);
      job[me].to(pe).ring();
    }
  for (int me = 0; me < kPes; ++me)
    for (int pe = 0; pe < kPes; ++pe) {
      INFO(me << " to " << pe);
      REQUIRE(job[me].to(pe).wait(index[me][pe]).ok());
      CHECK(std::equal(job[me].heap(), job[me].heap() + kBytes,
                       job[pe].heap() + std::uint64_t(me + 1) * 200000));
    }
}

TEST_CASE("an operation that a busy provider refuses is retried", "[ofi]") {
  if (!have_double()) return;
  const Leg leg = GENERATE(from_range(busy_legs()));
  INFO(leg.name());
  constexpr std::uint64_t kRounds = 100;
  Job job(2, leg);
  Client& client = job[0].to(1);
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    job[0].at<std::uint64_t>(0) = i;
    client.write(64, 0, 8);
    client.fetch_add(72, 8, 1);
    client.compare_swap(80, 16, i, i + 1);
    REQUIRE(client.ring_and_wait(client.read(64, 24, 24)).ok());
    CHECK(job[0].at<std::uint64_t>(24) == i);
    CHECK(job[0].at<std::uint64_t>(32) == i + 1);
    CHECK(job[0].at<std::uint64_t>(40) == i + 1);
  }
  const auto& refused = fabric_double()->refused;
  using enum FabricDouble::Call;
  const bool staged = leg.gdr == "off", by_nic = leg.provider == "cxi";
  for (const auto call : {kReceive, kSend}) CHECK((refused[call] > 0) == !by_nic);
  CHECK((refused[kWrite] > 0) == !staged);
  if (!staged) CHECK(refused[kRead] > 0);  // otherwise greetings and probes are refused
  for (const auto call : {kFetchAtomic, kCompareAtomic}) CHECK((refused[call] > 0) == by_nic);
}

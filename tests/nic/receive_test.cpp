// Receive queues as their entries lie in memory: in which order the engine takes them.
#include "tests/nic/softnic.h"

#include <catch2/catch.hpp>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <random>

namespace gshmem::test {
namespace {

constexpr std::uint32_t kLogEntries = 3, kEntries = 1 << kLogEntries, kLogEntryBytes = 6;

/// Entries of a receive queue and its record, written by hand.
struct Receives {
  explicit Receives(soft::ReceiveOrder order) : order(order) {}

  [[nodiscard]] soft::ReceiveAttributes attributes(std::uint32_t pd) {
    return {.pd = pd,
            .entries = entries.data(),
            .log_entries = kLogEntries,
            .log_entry_bytes = kLogEntryBytes,
            .record = &record,
            .order = order};
  }
  /// One piece, and then one without a key.
  void write(std::uint32_t index, std::uint32_t after, const Queue::Near& near) {
    Bytes entry;
    if (order != soft::ReceiveOrder::kRing) {
      append32(entry, after);
      entry.resize(16);
    }
    Queue::data(entry, near.address, near.bytes, near.key);
    Queue::data(entry, 0, 0, 0x100);
    std::copy(entry.begin(), entry.end(), entries.begin() + (index << kLogEntryBytes));
  }
  void post(std::uint32_t count) {
    __atomic_store_n(&record, __builtin_bswap32(count), __ATOMIC_RELEASE);
  }

  soft::ReceiveOrder order;
  alignas(64) std::array<std::uint8_t, kEntries << kLogEntryBytes> entries{};
  alignas(64) std::uint32_t record = 0;
};

/// One side of a connection: sends and receives complete in one queue.
struct End {
  explicit End(soft::Engine& engine)
      : pd(engine.create_pd()),
        memory(engine, pd, 4096),
        queue(engine, pd,
              {.log_cq = 5,
               .collapsed = false,
               .ignore_overrun = false,
               .receives = receives.attributes(pd)}) {
    for (std::uint32_t i = 0; i < kEntries; ++i) {
      receives.write(i, 0, {memory.address(64), 64, memory.key()});
    }
  }
  void send() {
    queue.send({memory.address(), 8, memory.key()});
    queue.ring();
  }
  Cqe next() {
    const Cqe cqe = queue.wait_next();
    queue.consume();
    return cqe;
  }

  std::uint32_t pd;
  Memory memory;
  Receives receives{soft::ReceiveOrder::kRing};
  Queue queue;
};

}  // namespace

TEST_CASE("receives_are_taken_in_the_order_of_their_kind") {
  const auto order = GENERATE(soft::ReceiveOrder::kRing, soft::ReceiveOrder::kLinkedRing,
                              soft::ReceiveOrder::kList);
  soft::Engine engine{soft::EngineOptions{}};
  const std::uint32_t pd = engine.create_pd();
  Receives receives(order);
  const std::uint32_t shared = engine.create_receives(receives.attributes(pd));
  {
    Memory source(engine, pd, 4096), target(engine, pd, 4096);
    Queue a(engine, pd);
    Queue b(engine, pd,
            {.log_cq = 5, .collapsed = false, .ignore_overrun = false, .shared_receives = shared});
    a.connect(b.qpn());
    b.connect(a.qpn());
    // A list goes anywhere from its first entry on, through all of them and back to it.
    std::array<std::uint32_t, kEntries> chain{};
    std::iota(chain.begin(), chain.end(), 0u);
    const auto seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::shuffle(chain.begin() + 1, chain.end(), random);
    for (std::uint32_t i = 0; i < kEntries; ++i) {
      const std::uint32_t index = chain[i];
      receives.write(index, chain[(i + 1) % kEntries],
                     {target.address(index * 64), 64, target.key()});
    }
    const bool list = order == soft::ReceiveOrder::kList;
    for (std::uint32_t n = 0; n < 3 * kEntries; ++n) {
      receives.post(n + 1);
      source.data()[0] = static_cast<std::uint8_t>(n + 1);
      const std::uint16_t sent = a.send({source.address(), 1, source.key()});
      CHECK_FALSE(a.ring_and_wait(sent).error());
      const std::uint32_t expected = list ? chain[n % kEntries] : n % kEntries;
      const Cqe got = b.wait_next();
      b.consume();
      CHECK(unsigned{got.opcode} == 2);
      CHECK(got.counter == expected);
      CHECK(got.bytes == 1);
      CHECK(target.data()[expected * 64] == n + 1);
    }
    CHECK(engine.violations().empty());
  }
  engine.destroy_receives(shared);
}

TEST_CASE("a_long_list_of_receives_is_followed_by_both_bytes_of_its_links") {
  constexpr std::uint32_t kLogLong = 9;
  soft::Engine engine{soft::EngineOptions{}};
  const std::uint32_t pd = engine.create_pd();
  Memory memory(engine, pd, 1 << (kLogLong + kLogEntryBytes));
  alignas(64) std::uint32_t record = __builtin_bswap32(4);
  const std::uint32_t chain[] = {0, 0x101, 0x1f0, 0x82, 0};
  for (std::size_t i = 0; i < 4; ++i) {
    Bytes entry;
    append32(entry, chain[i + 1]);
    entry.resize(16);
    Queue::data(entry, 0, 0, 0x100);
    std::copy(entry.begin(), entry.end(), memory.data() + (chain[i] << kLogEntryBytes));
  }
  const std::uint32_t shared = engine.create_receives({.pd = pd,
                                                       .entries = memory.data(),
                                                       .log_entries = kLogLong,
                                                       .log_entry_bytes = kLogEntryBytes,
                                                       .record = &record,
                                                       .order = soft::ReceiveOrder::kList});
  {
    Queue a(engine, pd);
    Queue b(engine, pd,
            {.log_cq = 3, .collapsed = false, .user_index = 0xabcdef, .shared_receives = shared});
    a.connect(b.qpn());
    b.connect(a.qpn());
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK_FALSE(a.ring_and_wait(a.post(a.control(0x0a, 1, 8))).error());
      const Cqe got = b.wait_next();
      CHECK(got.counter == chain[i]);
      CHECK(got.user_index == 0xabcdef);
    }
  }
  engine.destroy_receives(shared);
}

TEST_CASE("a_send_is_complete_before_the_answer_to_it") {
  // On one wire the acknowledgement comes first, and clients rely on it (UCX's flow control).
  const int fd = soft::Engine::make_fabric();
  soft::Engine near{soft::EngineOptions{}}, far{soft::EngineOptions{}};
  near.join_fabric(fd);
  far.join_fabric(fd);
  ::close(fd);
  End a(near), b(far);
  a.queue.connect(b.queue.qpn());
  b.queue.connect(a.queue.qpn());
  for (std::uint32_t round = 0; round < 3000; ++round) {
    a.receives.post(round + 1);
    b.receives.post(round + 1);
    a.send();
    if (round > 0) REQUIRE(unsigned{b.next().opcode} == 0);  // its answer of the last round
    REQUIRE(unsigned{b.next().opcode} == 2);
    b.send();
    CAPTURE(round);
    REQUIRE(unsigned{a.next().opcode} == 0);
    REQUIRE(unsigned{a.next().opcode} == 2);
  }
  CHECK(unsigned{b.next().opcode} == 0);
}

TEST_CASE("a_send_whose_answer_got_lost_takes_one_buffer_and_is_complete_once") {
  soft::Engine engine{{.adversary = "drop_reply=1"}};
  End a(engine), b(engine);
  const std::uint32_t mtu = GENERATE(256u, 4096u);
  a.queue.connect(b.queue.qpn(), {.mtu = mtu});
  b.queue.connect(a.queue.qpn(), {.mtu = mtu});
  for (std::uint32_t i = 0; i < kEntries; ++i)
    b.receives.write(i, 0, {b.memory.address(1024), 1024, b.memory.key()});
  for (std::uint32_t round = 0; round < 2 * kEntries; ++round) {
    const auto first = static_cast<std::uint8_t>(round + 1);
    std::iota(a.memory.data(), a.memory.data() + 1000, first);
    b.receives.post(round + 1);
    a.queue.send({a.memory.address(), 1000, a.memory.key()});
    a.queue.ring();
    REQUIRE_FALSE(a.next().error());
    const Cqe got = b.next();
    CHECK(got.counter == round % kEntries);
    CHECK(got.bytes == 1000);
    CHECK(std::memcmp(b.memory.data() + 1024, a.memory.data(), 1000) == 0);
  }
  CHECK(engine.counters().retries == 2 * kEntries);
  CHECK(engine.counters().cqes == 4 * kEntries);
  CHECK(engine.violations().empty());
}

TEST_CASE("a_shared_receive_queue_is_kept_while_it_is_used") {
  soft::Engine engine{soft::EngineOptions{}};
  const std::uint32_t pd = engine.create_pd();
  Receives receives(soft::ReceiveOrder::kRing);
  const std::uint32_t shared = engine.create_receives(receives.attributes(pd));
  CHECK_THROWS_AS(engine.destroy_pd(pd), soft::EngineError);
  {
    const Queue user(engine, pd, {.shared_receives = shared});
    CHECK_THROWS_AS(engine.destroy_receives(shared), soft::EngineError);
  }
  engine.destroy_receives(shared);
  CHECK_THROWS_AS(engine.destroy_receives(shared), soft::EngineError);
  engine.destroy_pd(pd);
}

}  // namespace gshmem::test

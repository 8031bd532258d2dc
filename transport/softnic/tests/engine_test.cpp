// Tests the soft NIC's engine with bytes written by hand: every opcode, rings and indices when they
// wrap around, completions.
#include "transport/softnic/tests/softnic.h"
#include "tests/threads_of_process.h"
#include "tests/sanitizers/sanitizers.h"
#include "tests/capture.h"
#include "transport/softnic/adversary.h"
#include "transport/softnic/memory.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

namespace gshmem::test {
namespace {

void fill(std::uint8_t* to, std::uint64_t bytes, unsigned first) {
  for (std::uint64_t i = 0; i < bytes; ++i) to[i] = static_cast<std::uint8_t>(first + i * 7);
}

TEST_CASE("a_write_lands_and_completes") {
  Pair pair;
  fill(pair.source.data(), 100, 1);
  const Cqe cqe = pair.a.ring_and_wait(pair.a.write(pair.far(8), pair.near(0, 100)));
  CHECK_FALSE(cqe.error());
  CHECK(cqe.opcode == 0);
  CHECK(cqe.counter == 0);
  CHECK(cqe.qpn == pair.a.qpn());
  CHECK(cqe.wqe_opcode == 0x08);
  CHECK(cqe.bytes == 100);
  CHECK(std::memcmp(pair.target.data() + 8, pair.source.data(), 100) == 0);
  CHECK(pair.target.data()[7] == 0);
  CHECK(pair.target.data()[108] == 0);
  CHECK(pair.engine.violations().empty());
  CHECK(pair.engine.counters().wqes == 1);
  CHECK(pair.engine.counters().cqes == 1);
  CHECK(pair.engine.counters().bytes == 100);
  CHECK(pair.engine.counters().doorbells == 1);
}

TEST_CASE("writes_of_all_sizes_around_the_mtu") {
  const std::uint32_t mtu = GENERATE(256u, 4096u);
  Pair pair({}, {}, {.mtu = mtu});
  for (const std::uint32_t bytes :
       {1u, 7u, 8u, 63u, 64u, 65u, 255u, 256u, 257u, 4095u, 4096u, 4097u, 100'001u, 1u << 20}) {
    fill(pair.source.data(), std::min<std::uint64_t>(bytes + 8, Pair::kBytes), bytes);
    std::memset(pair.target.data(), 0, Pair::kBytes);
    const Cqe cqe = pair.a.ring_and_wait(pair.a.write(pair.far(0), pair.near(0, bytes)));
    REQUIRE_FALSE(cqe.error());
    REQUIRE(cqe.bytes == bytes);
    REQUIRE(std::memcmp(pair.target.data(), pair.source.data(), bytes) == 0);
    if (bytes < Pair::kBytes) REQUIRE(pair.target.data()[bytes] == 0);
  }
  CHECK(pair.engine.violations().empty());
}

bool halves_differ(std::uint64_t word) { return word >> 32 != (word & 0xffffffff); }

// A copy in other steps would soon show a torn word where a step crosses pages.
TEST_CASE("the_aligned_words_of_a_small_write_are_never_torn") {
  Pair pair;
  std::memset(pair.source.data(), 0x11, 64);
  std::memset(pair.source.data() + 64, 0x22, 64);
  std::atomic<bool> over{false};
  std::atomic<int> looks{0};
  std::uint64_t torn = 0;
  std::thread poller([&] {
    const auto* word = pair.target.as<std::uint64_t>(4096);
    while (!over && torn == 0) {
      const std::uint64_t value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
      if (halves_differ(value)) torn = value;
      ++looks;
    }
  });
  eventually([&] { return looks > 0; });
  for (std::uint32_t round = 0; round < 1000; ++round)
    pair.a.ring_and_wait(pair.a.write(pair.far(4092), pair.near(round % 2 * 64, 12)));
  over = true;
  poller.join();
  CHECK(torn == 0);
  CHECK(pair.engine.violations().empty());
}

TEST_CASE("a_write_gathers_segments_and_may_be_inline_or_empty") {
  Pair pair;
  fill(pair.source.data(), 1000, 3);
  Bytes wqe = pair.a.control(0x08, 5, 8);
  Queue::remote(wqe, pair.target.address(16), pair.target.key());
  Queue::data(wqe, pair.source.address(500), 100, pair.source.key());
  Queue::data(wqe, pair.source.address(0), 3, pair.source.key());
  Queue::data(wqe, pair.source.address(900), 5, pair.source.key());
  CHECK_FALSE(pair.a.ring_and_wait(pair.a.post(wqe)).error());
  CHECK(std::memcmp(pair.target.data() + 16, pair.source.data() + 500, 100) == 0);
  CHECK(std::memcmp(pair.target.data() + 116, pair.source.data(), 3) == 0);
  CHECK(std::memcmp(pair.target.data() + 119, pair.source.data() + 900, 5) == 0);

  const Bytes payload = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 11, 12, 13};
  CHECK_FALSE(pair.a.ring_and_wait(pair.a.write_inline(pair.far(300), payload)).error());
  CHECK(std::memcmp(pair.target.data() + 300, payload.data(), payload.size()) == 0);
  // A request of no bytes needs no valid key (InfiniBand 9.4.3 and 9.4.4).
  for (const Queue::Far& far : {pair.far(0), Queue::Far{0, 0x4711}}) {
    CHECK_FALSE(pair.a.ring_and_wait(pair.a.write(far, pair.near(0, 0))).error());
    CHECK_FALSE(pair.a.ring_and_wait(pair.a.read(far, pair.near(0, 0))).error());
  }

  // Both are in one message of several packets.
  Bytes both = pair.a.control(0x08, 4, 8);
  Queue::remote(both, pair.target.address(5000), pair.target.key());
  append32(both, 0x8000'0000u | 7);
  both.insert(both.end(), payload.begin(), payload.begin() + 12);  // five of them are padding
  Queue::data(both, pair.source.address(11), 9000, pair.source.key());
  fill(pair.source.data(), 10'000, 4);
  CHECK_FALSE(pair.a.ring_and_wait(pair.a.post(both)).error());
  CHECK(std::memcmp(pair.target.data() + 5000, payload.data(), 7) == 0);
  CHECK(std::memcmp(pair.target.data() + 5007, pair.source.data() + 11, 9000) == 0);
  CHECK(pair.target.data()[5007 + 9000] == 0);
  CHECK(pair.engine.violations().empty());
}

TEST_CASE("a_read_fetches_data_of_all_sizes") {
  Pair pair;
  fill(pair.target.data(), Pair::kBytes, 5);
  for (const std::uint32_t bytes : {1u, 8u, 64u, 4096u, 4097u, 300'000u}) {
    std::memset(pair.source.data(), 0, Pair::kBytes);
    const Cqe cqe = pair.a.ring_and_wait(pair.a.read(pair.far(24), pair.near(32, bytes)));
    REQUIRE_FALSE(cqe.error());
    REQUIRE(cqe.wqe_opcode == 0x10);
    REQUIRE(std::memcmp(pair.source.data() + 32, pair.target.data() + 24, bytes) == 0);
    REQUIRE(pair.source.data()[31] == 0);
    REQUIRE(pair.source.data()[32 + bytes] == 0);
  }
  CHECK_FALSE(pair.a.ring_and_wait(pair.a.read(pair.far(0), pair.near(0, 0))).error());
  CHECK(pair.engine.violations().empty());
}

TEST_CASE("atomics_change_the_word_and_return_the_old_one") {
  Pair pair;
  auto* word = pair.target.as<std::uint64_t>(64);
  auto* old = pair.source.as<std::uint64_t>(8);
  *word = 100;
  CHECK_FALSE(pair.a.ring_and_wait(pair.a.fetch_add(pair.far(64), pair.near(8, 8), 23)).error());
  CHECK(*word == 123);
  CHECK(*old == 100);  // the NIC returns 8 bytes in host order
  CHECK_FALSE(
      pair.a.ring_and_wait(pair.a.compare_swap(pair.far(64), pair.near(8, 8), 123, 7)).error());
  CHECK(*word == 7);
  CHECK(*old == 123);
  pair.a.ring_and_wait(pair.a.compare_swap(pair.far(64), pair.near(8, 8), 123, 9));
  CHECK(*word == 7);
  CHECK(*old == 7);

  // Exclusive or: every bit is a boundary.
  Bytes operands;
  append64(operands, 0xff);
  append64(operands, ~0ull);
  pair.a.ring_and_wait(pair.a.atomic(0x15, 9, pair.far(64), pair.near(8, 8), operands));
  CHECK(*word == 0xf8);
  // Swaps any value.
  operands.clear();
  append64(operands, 0x1122334455667788);
  append64(operands, 0);
  append64(operands, ~0ull);
  append64(operands, 0);
  pair.a.ring_and_wait(pair.a.atomic(0x14, 9, pair.far(64), pair.near(8, 8), operands));
  CHECK(*word == 0x1122334455667788);
  CHECK(*old == 0xf8);
  CHECK(pair.engine.violations().empty());
}

TEST_CASE("atomics_of_4_bytes_return_big_endian") {
  Pair pair;
  auto* word = pair.target.as<std::uint32_t>(4);
  auto* old = pair.source.as<std::uint32_t>(0);
  *word = 0xfffffffe;
  word[1] = 0x55;
  Bytes operands;
  for (const std::uint32_t value : {5u, 0u, 0u, 0u}) append32(operands, value);
  pair.a.ring_and_wait(pair.a.atomic(0x15, 8, pair.far(4), pair.near(0, 4), operands));
  CHECK(*word == 3);
  CHECK(word[1] == 0x55);
  CHECK(__builtin_bswap32(*old) == 0xfffffffe);
  operands.clear();
  for (const std::uint32_t value : {9u, 3u, 0xfu, ~0u}) append32(operands, value);
  pair.a.ring_and_wait(pair.a.atomic(0x14, 8, pair.far(4), pair.near(0, 4), operands));
  CHECK(*word == 9);
  CHECK(__builtin_bswap32(*old) == 3);
  CHECK(pair.engine.violations().empty());
}

TEST_CASE("nop_and_dump_complete") {
  Pair pair;
  CHECK(pair.a.ring_and_wait(pair.a.nop()).wqe_opcode == 0);
  Bytes wqe = pair.a.control(0x23, 2, 0x48);
  Queue::data(wqe, pair.source.address(0), 8, pair.source.key());
  CHECK(pair.a.ring_and_wait(pair.a.post(wqe)).wqe_opcode == 0x23);
  CHECK(pair.engine.violations().empty());
}

TEST_CASE("unsignalled_entries_complete_with_the_next_signalled_one") {
  Pair pair;
  for (std::uint32_t i = 0; i < 9; ++i) {
    pair.source.as<std::uint64_t>()[i] = i + 1;
    pair.a.write(pair.far(8 * i), pair.near(8 * i, 8), 0);
  }
  const Cqe cqe = pair.a.ring_and_wait(pair.a.nop());
  CHECK(cqe.counter == 9);
  CHECK(pair.engine.counters().cqes == 1);
  for (std::uint32_t i = 0; i < 9; ++i) CHECK(pair.target.as<std::uint64_t>()[i] == i + 1);
}

TEST_CASE("rings_and_indices_wrap_and_wqes_cross_the_end") {
  // 16-bit indices wrap after 65536 entries; WQEs of two entries cross the ring's end at odd ones.
  Pair pair({}, {.log_entries = 5});
  Bytes operands;
  append64(operands, 3);  // swap
  append64(operands, 0);
  append64(operands, 0xff);
  append64(operands, 0);
  auto* word = pair.target.as<std::uint64_t>(0);
  std::uint64_t posted = 0;
  while (pair.a.next() < 70'000) {
    std::uint16_t last = pair.a.nop(0);
    for (int i = 0; i < 14; ++i) {
      operands[7] = static_cast<std::uint8_t>(++posted);
      last = pair.a.atomic(0x14, 9, pair.far(0), pair.near(0, 8), operands, i == 13 ? 8 : 0);
    }
    const Cqe cqe = pair.a.ring_and_wait(last);
    REQUIRE_FALSE(cqe.error());
    REQUIRE((*word & 0xff) == (posted & 0xff));
  }
  CHECK(pair.engine.violations().empty());
}

TEST_CASE("an_ordinary_completion_queue_toggles_its_owner_bit") {
  Pair pair({}, {.log_cq = 2, .collapsed = false, .ignore_overrun = false, .user_index = 77});
  for (std::uint16_t i = 0; i < 50; ++i) {
    pair.a.nop();
    pair.a.ring();
    const Cqe cqe = pair.a.wait_next();
    REQUIRE(cqe.counter == i);
    pair.a.consume();
  }
  CHECK(pair.engine.violations().empty());
}

TEST_CASE("a_full_completion_queue_is_an_error_of_its_queue_pairs") {
  Pair pair({}, {.log_cq = 2, .collapsed = false, .ignore_overrun = false});
  for (int i = 0; i < 5; ++i) pair.a.nop();
  pair.a.ring();
  CHECK(eventually([&] { return pair.engine.state(pair.a.qpn()) == soft::QpState::kError; }));
  for (std::uint16_t i = 0; i < 4; ++i) CHECK(pair.a.wait_next().counter == i);
  CHECK_FALSE(pair.a.poll());
  CHECK_THAT(pair.engine.violations(), Catch::Contains("is full"));
  // Room that comes later changes nothing.
  pair.a.consume();
  pair.a.reset();
  pair.a.connect(pair.b.qpn());
  pair.a.nop();
  pair.a.ring();
  CHECK(eventually([&] { return pair.engine.state(pair.a.qpn()) == soft::QpState::kError; }));
  CHECK(pair.engine.counters().cqes == 4);
  CHECK(pair.engine.counters().violations == 1);
}

TEST_CASE("a_queue_pair_may_be_connected_to_itself") {
  soft::Engine engine(soft::EngineOptions{});
  const std::uint32_t pd = engine.create_pd();
  Memory memory(engine, pd, 8192);
  Queue queue(engine, pd);
  queue.connect(queue.qpn());
  *memory.as<std::uint64_t>(0) = 42;
  CHECK_FALSE(queue
                  .ring_and_wait(queue.write({memory.address(4096), memory.key()},
                                             {memory.address(0), 8, memory.key()}))
                  .error());
  CHECK(*memory.as<std::uint64_t>(4096) == 42);
  CHECK_FALSE(queue
                  .ring_and_wait(queue.fetch_add({memory.address(4096), memory.key()},
                                                 {memory.address(8), 8, memory.key()}, 1))
                  .error());
  CHECK(*memory.as<std::uint64_t>(4096) == 43);
  CHECK(*memory.as<std::uint64_t>(8) == 42);
}

TEST_CASE("a_queue_pair_without_a_record_has_a_register_of_its_own") {
  Pair pair({}, {.no_record = true});
  for (int i = 0; i < 5; ++i) {
    const std::uint16_t index = pair.a.fetch_add(pair.far(0), pair.near(0, 8), 1);
    pair.a.store_doorbell(pair.a.next(), pair.a.qpn(), 0x600);
    CHECK_FALSE(pair.a.wait(index).error());
  }
  CHECK(*pair.target.as<std::uint64_t>() == 5);
  CHECK(pair.engine.violations().empty());  // not for the record either, which stays 0
  pair.a.nop();
  pair.a.store_doorbell(pair.a.next(), pair.a.qpn());
  CHECK(eventually([&] { return pair.engine.counters().violations == 1; }));
  CHECK_THAT(pair.engine.violations(), Catch::Contains("at 0x800, but it does without"));
}

TEST_CASE("queue_pairs_that_share_a_register_lose_no_doorbell") {
  // Doorbells are read late, so that the second one replaces the first.
  soft::Engine engine({.adversary = "coalesce=1"});
  const std::uint32_t pd = engine.create_pd();
  Queue a(engine, pd), b(engine, pd, {.uar = a.uar(), .page = a.page()});
  a.connect(a.qpn());
  b.connect(b.qpn());
  for (int round = 0; round < 200; ++round) {
    const std::uint16_t first = a.nop(), second = b.nop();
    a.ring();
    b.ring();
    REQUIRE_FALSE(a.wait(first).error());
    REQUIRE_FALSE(b.wait(second).error());
  }
  CHECK(engine.counters().doorbells < 400);
  CHECK(engine.violations().empty());
}

TEST_CASE("a_doorbell_before_a_command_takes_effect_before_it") {
  soft::Engine engine({.adversary = "coalesce=1"});  // read late
  const std::uint32_t pd = engine.create_pd();
  Queue a(engine, pd);
  int late = 0;
  for (int round = 0; round < 20; ++round) {
    a.connect(a.qpn());
    a.nop();
    a.ring();
    a.reset();
    a.connect(a.qpn());
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    late += a.peek() ? 1 : 0;
    a.reset();
    Queue b(engine, pd, {.uar = a.uar(), .page = a.page()});
    b.connect(b.qpn());
    b.nop();
    b.ring();
  }
  CHECK(late == 0);
  CHECK(engine.violations().empty());
}

TEST_CASE("a_peer_that_is_not_connected_yet_is_waited_for") {
  soft::Engine engine(soft::EngineOptions{});
  const std::uint32_t pd = engine.create_pd();
  Memory memory(engine, pd, 8192);
  Queue a(engine, pd), b(engine, pd);
  engine.modify_to_init(b.qpn(), {true, true, true});
  a.connect(b.qpn(), {}, {.ack_timeout = 22});  // 0.5 s, 8 times
  *memory.as<std::uint64_t>(0) = 42;
  for (std::uint64_t i = 0; i < 10; ++i) {
    a.fetch_add({memory.address(4096), memory.key()}, {memory.address(8 + 8 * i), 8, memory.key()},
                1, 0);
  }
  a.ring();
  CHECK(eventually([&] { return engine.counters().retries > 0; }));
  CHECK_FALSE(a.peek());
  b.finish_connect(a.qpn());
  CHECK_FALSE(a.ring_and_wait(a.nop()).error());
  CHECK(*memory.as<std::uint64_t>(4096) == 10);  // each once
  for (std::uint64_t i = 0; i < 10; ++i) CHECK(*memory.as<std::uint64_t>(8 + 8 * i) == i);
}

// Packets and atomics have the same numbers as those of the connection before.
TEST_CASE("queue_pairs_after_reset_have_no_state_of_the_old_connection") {
  Pair pair;
  for (std::uint64_t round = 1; round <= 3; ++round) {
    *pair.target.as<std::uint64_t>() = 100 * round;
    for (std::uint64_t i = 0; i < 3; ++i) {
      REQUIRE_FALSE(
          pair.a.ring_and_wait(pair.a.fetch_add(pair.far(0), pair.near(64, 8), 1)).error());
      CHECK(*pair.source.as<std::uint64_t>(64) == 100 * round + i);
    }
    *pair.source.as<std::uint64_t>() = round;
    REQUIRE_FALSE(pair.a.ring_and_wait(pair.a.write(pair.far(8), pair.near(0, 8))).error());
    CHECK(*pair.target.as<std::uint64_t>(8) == round);
    pair.a.reset();
    pair.b.reset();
    pair.a.connect(pair.b.qpn());
    pair.b.connect(pair.a.qpn());
  }
  CHECK(pair.engine.violations().empty());
}

TEST_CASE("entries_after_a_wait_stay_until_a_completion_queue_has_had_as_many_entries") {
  Pair pair({}, {.waits_for_others = true});
  *pair.source.as<std::uint64_t>() = 42;
  // That of b, three times, and one that has come already.
  pair.b.ring_and_wait(pair.b.nop());
  pair.a.wait_for(pair.b.cqn(), 1, 0);
  pair.a.wait_for(pair.b.cqn(), 3);
  const std::uint16_t last = pair.a.write(pair.far(0), pair.near(0, 8));
  pair.a.ring();
  for (int round = 0; round < 2; ++round) {
    CHECK_FALSE(pair.a.peek());
    pair.b.ring_and_wait(pair.b.nop());
  }
  CHECK_FALSE(pair.a.wait(last).error());
  CHECK(*pair.target.as<std::uint64_t>() == 42);
  CHECK(pair.engine.violations().empty());
}

TEST_CASE("a_wait_that_cannot_end_is_an_error") {
  const bool allowed = GENERATE(true, false);
  Pair pair({}, {.waits_for_others = allowed});
  const std::uint16_t index = pair.a.wait_for(allowed ? 0xabcdef : pair.b.cqn(), 0);
  CHECK(unsigned{pair.a.ring_and_wait(index).syndrome} == 2);
  CHECK_FALSE(pair.engine.violations().empty());
}

}  // namespace
}  // namespace gshmem::test

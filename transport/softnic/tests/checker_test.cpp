// Tests the client checker: each misuse of a queue that is not an error of the specification, or to
// which hardware would react less clearly.
#include "transport/softnic/tests/softnic.h"
#include "tests/capture.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

namespace gshmem::test {
namespace {

using Catch::Contains;

/// Waits until the engine has seen `count` doorbells, and has had time to act on the last.
void wait_for_doorbells(const soft::Engine& engine, std::uint64_t count) {
  CHECK(eventually([&] { return engine.counters().doorbells == count; }));
}
void wait_for_violation(const soft::Engine& engine, const char* text) {
  eventually([&] { return engine.counters().violations > 0; });
  CHECK_THAT(engine.violations(), Contains(text));
  CHECK(engine.counters().violations == 1);
}

TEST_CASE("a_doorbell_before_its_entries_is_found") {
  Pair pair;
  pair.a.nop();
  pair.a.store_record(2);
  pair.a.store_doorbell(2, pair.a.qpn());  // one entry too many
  const Cqe cqe = pair.a.wait(0);
  static_cast<void>(cqe);
  wait_for_violation(pair.engine, "not written before the doorbell");
  CHECK_THAT(pair.engine.violations(), Contains("qpn 0x0"));
}

TEST_CASE("an_entry_of_an_earlier_lap_is_found") {
  Pair pair({.strict = soft::Strictness::kLoose}, {.log_entries = 2});
  for (int i = 0; i < 4; ++i) pair.a.ring_and_wait(pair.a.nop());
  pair.a.set_next(5);
  pair.a.ring();
  wait_for_violation(pair.engine, "index 0 of queue pair 0x40 where index 4 of 0x40 is due");
}

TEST_CASE("a_wqe_that_the_doorbell_covers_in_part_is_found") {
  Pair pair;
  Bytes operands;
  for (int i = 0; i < 4; ++i) append64(operands, 0);
  pair.a.atomic(0x14, 9, pair.far(0), pair.near(0, 8), operands);
  pair.a.set_next(1);
  pair.a.ring();
  wait_for_violation(pair.engine, "ds");
  CHECK(pair.a.wait(0).syndrome == 0x02);
}

TEST_CASE("index_jumps_and_old_doorbells_are_distinguished") {
  Pair pair;
  pair.a.ring_and_wait(pair.a.nop());
  pair.a.ring_and_wait(pair.a.nop());
  pair.a.store_doorbell(1, pair.a.qpn());  // older: legal for clients without locks
  wait_for_doorbells(pair.engine, 3);
  CHECK(pair.engine.counters().stale_doorbells == 1);
  CHECK(pair.engine.violations().empty());
  pair.a.store_doorbell(2, pair.a.qpn());  // again
  wait_for_doorbells(pair.engine, 4);
  CHECK(pair.engine.violations().empty());
  pair.a.store_doorbell(1000, pair.a.qpn());
  wait_for_violation(pair.engine, "jumps from index 2 to 1000 in a queue of 64");
  const Cqe missing = pair.a.wait(2);
  CHECK(missing.counter == 2);
  CHECK(unsigned{missing.syndrome} == kBadOperation);
  CHECK(unsigned{missing.vendor} == 0x68);
}

TEST_CASE("a_doorbell_beyond_the_queue_is_an_error_that_the_client_sees") {
  Pair pair({}, {.log_cq = 4, .collapsed = false});
  pair.a.nop();
  pair.a.nop();
  pair.a.ring();
  pair.a.store_doorbell(1000, pair.a.qpn());  // also when it overtakes that of the two
  CHECK(eventually([&] { return pair.engine.state(pair.a.qpn()) == soft::QpState::kError; }));
  Cqe cqe = pair.a.wait_next();
  for (; !cqe.error(); cqe = pair.a.wait_next()) {
  }
  CHECK(unsigned{cqe.syndrome} == 0x02);
  CHECK(cqe.qpn == pair.a.qpn());
  CHECK((cqe.counter == 0 || cqe.counter == 2));
  CHECK(pair.engine.state(pair.b.qpn()) == soft::QpState::kRts);
}

TEST_CASE("overwriting_entries_that_are_not_consumed_is_found") {
  Pair pair({.rules = "wqe=0:delay=1000s"}, {.log_entries = 2});
  for (int i = 0; i < 3; ++i) pair.a.nop();
  pair.a.ring();
  wait_for_doorbells(pair.engine, 1);
  pair.a.nop();
  pair.a.nop();  // overwrites the first
  pair.a.ring();
  eventually([&] { return pair.engine.counters().violations > 0; });
  CHECK_THAT(pair.engine.violations(), Contains("unconsumed entries were overwritten"));
  pair.a.ring();  // again
  wait_for_doorbells(pair.engine, 3);
  CHECK(pair.engine.counters().violations == 1);
}

TEST_CASE("changing_a_wqe_before_its_completion_is_found") {
  Pair pair({.rules = "wqe=0:delay=1s"});
  const std::uint16_t index = pair.a.write(pair.far(0), pair.near(0, 8));
  pair.a.ring();
  CHECK(eventually([&] { return pair.engine.counters().wqes == 1; }));
  // An atomic store, so that a race detector sees only the mistake under test.
  auto* word = reinterpret_cast<std::uint32_t*>(pair.a.slot(index) + 44);
  __atomic_store_n(word, 0x12345678u, __ATOMIC_RELAXED);
  CHECK_FALSE(pair.a.wait(index).error());
  wait_for_violation(pair.engine, "overwritten before its completion");
}

TEST_CASE("a_doorbell_in_two_halves_is_found") {
  Pair pair;
  const int first = GENERATE(0, 4);
  auto* half = reinterpret_cast<std::uint32_t*>(static_cast<char*>(pair.a.page()) + 0x800 + first);
  __atomic_store_n(half, __builtin_bswap32(first == 0 ? 1u << 8 : pair.a.qpn() << 8),
                   __ATOMIC_RELEASE);
  wait_for_violation(pair.engine, "stored in parts");
}

TEST_CASE("doorbells_of_strangers_are_found") {
  Pair pair;
  SECTION("no such queue pair") {
    pair.a.store_doorbell(1, 0x3fff0);
    wait_for_violation(pair.engine, "0x3fff0, which does not exist");
  }
  SECTION("on another queue pair's page") {
    pair.a.store_doorbell(1, pair.b.qpn());
    wait_for_violation(pair.engine, "which belongs to");
  }
  SECTION("before the queue pair is ready") {
    Queue idle(pair.engine, pair.pd);
    idle.nop();
    idle.ring();
    wait_for_violation(pair.engine, "in state 0");
    idle.connect(idle.qpn());  // the announced entry does not run: a NIC has ignored it
    for (int i = 0; i < 3; ++i) CHECK_FALSE(pair.a.ring_and_wait(pair.a.nop()).error());
    CHECK_FALSE(idle.peek());
  }
}

TEST_CASE("a_record_older_than_the_doorbell_is_found") {
  const std::int64_t begin = clock_ns();
  Pair pair;
  Queue equal(pair.engine, pair.pd), full(pair.engine, pair.pd);
  equal.connect(equal.qpn());
  full.connect(full.qpn());
  for (int i = 0; i < 40; ++i) equal.nop();
  CHECK_FALSE(equal.ring_and_wait(39).error());
  full.store_record(64);  // a whole queue is not rung yet; the limit for that is two seconds
  pair.a.nop();
  pair.a.store_doorbell(1, pair.a.qpn());  // and no record
  CHECK_FALSE(pair.a.wait(0).error());
  const auto passes = [&] {
    for (int i = 0; i < 5; ++i) CHECK_FALSE(pair.b.ring_and_wait(pair.b.nop()).error());
  };
  CHECK(eventually([&] { return pair.engine.counters().violations > 0; }));
  passes();
  const std::string found = pair.engine.violations();
  full.store_record(0);
  if (clock_ns() - begin > 2'000'000'000) return;
  CHECK_THAT(found, Contains("doorbell record says 0, the last doorbell 1"));
  CHECK(pair.engine.counters().violations == 1);  // once, however often it is checked
  pair.a.store_record(1);
  passes();
  pair.a.nop();
  const std::int64_t rung = clock_ns();
  pair.a.store_doorbell(2, pair.a.qpn());
  CHECK_FALSE(pair.a.wait(1).error());
  passes();
  const std::uint64_t count = pair.engine.counters().violations;
  if (clock_ns() - rung < 100'000'000) CHECK(count == 1);  // it may be late again
  CHECK(eventually([&] { return pair.engine.counters().violations == 2; }));  // and is found again
}

// A record is shared by the queues of one register of one UAR. A NIC sees doorbells by any other
// register as its own.
TEST_CASE("a_record_is_no_doorbell_if_the_register_is_not_shared") {
  Pair pair;
  Queue other(pair.engine, pair.pd, {.uar = pair.a.uar(), .page = pair.a.page()});
  other.connect(other.qpn());
  struct One {
    Queue& queue;
    unsigned offset;
  };
  const One low{pair.a, 0x800}, high{other, 0x900};
  const auto ring = [](const One& one) {
    one.queue.store_record(one.queue.next());
    one.queue.store_doorbell(one.queue.next(), one.queue.qpn(), one.offset);
    CHECK_FALSE(one.queue.wait(static_cast<std::uint16_t>(one.queue.next() - 1)).error());
  };
  for (const One& one : {low, high}) one.queue.nop(), ring(one);
  for (const auto& [late, early] : {std::pair{low, high}, {high, low}}) {
    const auto done = late.queue.peek()->counter;
    late.queue.nop();
    late.queue.store_record(late.queue.next());
    for (int i = 0; i < 3; ++i) early.queue.nop(), ring(early);
    CHECK(late.queue.peek()->counter == done);
    ring(late);
  }
  // The queue is alone on its UAR: there are entries after the doorbell's, and their record is
  // stored already.
  pair.b.nop();
  pair.b.nop();
  pair.b.store_record(2);
  pair.b.store_doorbell(1, pair.b.qpn());
  CHECK_FALSE(pair.b.wait(0).error());
  for (int i = 0; i < 3; ++i) low.queue.nop(), ring(low);
  CHECK(pair.b.peek()->counter == 0);
  pair.b.ring();
  CHECK_FALSE(pair.b.wait(1).error());
  CHECK(pair.engine.violations().empty());
  CHECK(pair.engine.counters().rescues == 0);
}

TEST_CASE("the_first_violation_is_kept_and_all_are_counted") {
  soft::Engine engine{soft::EngineOptions{}};
  std::string expected;
  for (int i = 1; i <= 64; ++i) {
    engine.remark("thing " + std::to_string(i));
    expected += "thing " + std::to_string(i) + "\n";
  }
  CHECK(engine.remarks() == expected);
  for (int i = 0; i < 6; ++i) engine.remark("more");
  CHECK(engine.remarks() == expected + "and 6 more\n");
  CHECK(engine.counters().remarks == 70);
  CHECK(engine.violations().empty());
}

}  // namespace
}  // namespace gshmem::test

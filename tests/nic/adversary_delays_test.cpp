// How long what an adversary delays takes at least: delays are a hash of the seed and of what they
// are of, so a test can find a seed by which the first ones are long.
#include "tests/nic/long_delay.h"
#include "tests/nic/softnic.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <functional>
#include <string>

namespace gshmem::test {
namespace {

using soft::Behaviour;

TEST_CASE("what_is_delayed_takes_as_long_as_the_seed_says_each_time") {
  using Post = std::function<std::uint16_t(Pair&)>;
  const Post nop = [](Pair& p) { return p.a.nop(); };
  struct Row {
    const char* adversary;
    Behaviour behaviour;
    std::uint64_t queue, first, count;
    Post post;
  };
  const Post add = [](Pair& p) { return p.a.fetch_add(p.far(0), p.near(0, 8), 1); };
  const Post read = [](Pair& p) { return p.a.read(p.far(0), p.near(0, 8)); };
  for (const Row& row : {Row{"starve=1", Behaviour::kStarve, 0, 1, 2, nop},
                         Row{"late_start=1", Behaviour::kLateStart, 0, 0, 1, nop},
                         Row{"late_completion=1", Behaviour::kLateCompletion, 0, 0, 1, nop},
                         Row{"late_atomic=1", Behaviour::kLateAtomic, 1, 0, 1, add},
                         Row{"late_read=1", Behaviour::kLateRead, 1, 0, 1, read}}) {
    INFO(row.adversary);
    const LongDelay seed(row.adversary, row.behaviour, row.queue, row.first, row.count);
    for (int round = 0; round < 3; ++round) {
      // Wherever the sequence numbers begin.
      Pair pair({.seed = seed.seed, .adversary = row.adversary}, {}, {.receive_psn = 0x765432},
                {.send_psn = 0x765432});
      const std::int64_t begin = clock_ns();
      for (std::uint64_t i = 0; i < row.count; ++i)
        CHECK_FALSE(pair.a.ring_and_wait(row.post(pair)).error());
      CHECK(clock_ns() - begin >= seed.ns);
    }
  }
}

TEST_CASE("a_queue_pair_that_waits_for_messages_is_starved_from_its_first_entry_on") {
  const LongDelay seed("starve=1", Behaviour::kStarve, 0, 1, 1);
  soft::Engine engine({.seed = seed.seed, .adversary = "starve=1"});
  const std::uint32_t pd = engine.create_pd();
  Memory receives(engine, pd, 4096);
  soft::ReceiveAttributes of_queue;
  of_queue.entries = receives.data();
  of_queue.record = receives.data() + 1024;
  Queue queue(engine, pd, {.receives = of_queue}), other(engine, pd);
  for (Queue* each : {&queue, &other}) each->connect(each->qpn());
  for (int i = 0; i < 3; ++i) CHECK_FALSE(other.ring_and_wait(other.nop()).error());
  const std::int64_t begin = clock_ns();
  CHECK_FALSE(queue.ring_and_wait(queue.nop()).error());
  CHECK(clock_ns() - begin >= seed.ns);
}

/// A queue pair whose first write by a relaxed key is held for long.
struct Held {
  explicit Held(const soft::QpRtr& rtr = {})
      : engine({.seed = seed.seed, .adversary = "reorder_writes=1"}) {
    a.connect(b.qpn(), rtr);
    b.connect(a.qpn(), rtr);
  }
  [[nodiscard]] Queue::Far far(std::uint64_t offset) const {
    return {memory.address(offset), memory.key()};
  }
  const LongDelay seed{"reorder_writes=1", Behaviour::kReorderWrites, 1, 0, 1};
  soft::Engine engine;
  std::uint32_t pd = engine.create_pd();
  Memory memory{engine, pd, 8192, 15 | std::uint32_t{soft::kRelaxedOrdering}};
  Queue a{engine, pd}, b{engine, pd};
};

TEST_CASE("a_write_is_held_while_nothing_comes_after_it_and_lands_before_its_completion") {
  Held held;
  const std::int64_t begin = clock_ns();
  CHECK_FALSE(held.a.ring_and_wait(held.a.write_inline(held.far(0), Bytes(8, 7))).error());
  CHECK(clock_ns() - begin >= held.seed.ns);
  CHECK(held.memory.data()[0] == 7);
}

TEST_CASE("what_was_held_has_landed_when_its_queue_pair_fails") {
  Held held;
  held.a.write_inline(held.far(0), Bytes(8, 7));
  held.a.fetch_add(held.far(68), {held.memory.address(128), 8, held.memory.key()}, 1);  // unaligned
  held.a.ring();
  CHECK(eventually([&] { return held.engine.state(held.b.qpn()) == soft::QpState::kError; }));
  CHECK(__atomic_load_n(held.memory.data(), __ATOMIC_ACQUIRE) == 7);
}

TEST_CASE("a_message_of_several_packets_is_not_held_and_arrives_whole") {
  Held held({.mtu = 256});
  for (std::uint64_t i = 0; i < 1500; ++i)
    held.memory.data()[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  CHECK_FALSE(held.a
                  .ring_and_wait(held.a.write(held.far(4096),
                                              {held.memory.address(), 1500, held.memory.key()}))
                  .error());
  CHECK(std::memcmp(held.memory.data() + 4096, held.memory.data(), 1500) == 0);
}

TEST_CASE("what_trails_a_completion_does_so_for_a_while") {
  Pair pair({.adversary = "trailing_read=1"});
  *pair.target.as<std::uint64_t>() = 1000;
  const std::int64_t begin = clock_ns();
  CHECK_FALSE(pair.a.ring_and_wait(pair.a.read(pair.far(0), pair.near(0, 8))).error());
  CHECK(eventually(
      [&] { return __atomic_load_n(pair.source.as<std::uint64_t>(), __ATOMIC_ACQUIRE) == 1000; }));
  CHECK(clock_ns() - begin >= 200'000);
}

TEST_CASE("completions_one_by_one_are_never_left_out") {
  Pair pair({.adversary = "skip=1"});
  for (int i = 0; i < 20; ++i) CHECK_FALSE(pair.a.ring_and_wait(pair.a.nop()).error());
  CHECK(pair.engine.counters().cqes == 20);
}

}  // namespace
}  // namespace gshmem::test

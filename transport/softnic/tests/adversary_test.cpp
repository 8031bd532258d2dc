// Runs random programs against a sequential model, with all that a NIC may legally do turned on.
// The client obeys the rules (one line of memory per pending operation, a fence if it needs one),
// so each seed must give the result of the model. A failure prints its seed.
#include "transport/softnic/tests/softnic.h"
#include "tests/sanitizers/sanitizers.h"
#include "transport/softnic/adversary.h"

#include <catch2/catch.hpp>

#include <map>
#include <random>

namespace gshmem::test {
namespace {

constexpr std::uint64_t kLine = 64, kLines = 512;

/// Two sides of the model: the contents of the memories when everything has completed.
class Program {
 public:
  Program(Pair& pair, std::uint64_t seed)
      : pair_(pair), random_(seed), target_(Pair::kBytes), source_(Pair::kBytes) {
    for (std::uint64_t i = 0; i < Pair::kBytes; ++i) {
      target_[i] = pair.target.data()[i] = static_cast<std::uint8_t>(random_());
      source_[i] = pair.source.data()[i] = static_cast<std::uint8_t>(random_());
    }
  }

  /// Runs a batch of operations that may overlap at the target, then compares everything.
  void batch() {
    const std::uint32_t count = 1 + pick(24);
    used_ = 0;
    std::uint16_t last = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool signalled = i + 1 == count || pick(3) == 0;
      last = one(signalled ? 8 : 0);
      if (pick(4) == 0) pair_.a.ring();
    }
    const Cqe cqe = pair_.a.ring_and_wait(last);
    REQUIRE_FALSE(cqe.error());
    REQUIRE(std::memcmp(pair_.target.data(), target_.data(), Pair::kBytes) == 0);
    REQUIRE(std::memcmp(pair_.source.data(), source_.data(), Pair::kBytes) == 0);
  }

 private:
  std::uint32_t pick(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }

  /// Returns source memory that no other operation of the batch uses.
  std::uint64_t fresh(std::uint64_t bytes) {
    const std::uint64_t at = used_;
    used_ += (bytes + kLine - 1) / kLine * kLine;
    return at;
  }

  std::uint16_t one(std::uint8_t flags) {
    // Later writes may overtake reads, so a fence follows every read.
    const std::uint8_t fence = pick(2) ? 0x40 : 0x80;
    const auto fenced = static_cast<std::uint8_t>(flags | fence);
    switch (pick(8)) {
      case 0:
      case 1:
        return write(fenced, 1 + pick(200));
      case 2:
        return write(fenced, 1 + pick(20'000));
      case 3:
        return read(fenced, 1 + pick(10'000));
      case 4:
        return pair_.a.nop(flags);
      case 5:
        return inlined(fenced);
      default:
        return atomic(fenced);
    }
  }

  std::uint16_t write(std::uint8_t flags, std::uint32_t bytes) {
    const std::uint64_t to = pick(kLine * kLines), from = fresh(bytes);
    std::memcpy(&target_[to], &source_[from], bytes);
    return pair_.a.write(pair_.far(to), pair_.near(from, bytes), flags);
  }
  std::uint16_t read(std::uint8_t flags, std::uint32_t bytes) {
    const std::uint64_t from = pick(kLine * kLines), to = fresh(bytes);
    std::memcpy(&source_[to], &target_[from], bytes);
    return pair_.a.read(pair_.far(from), pair_.near(to, bytes), flags);
  }
  std::uint16_t inlined(std::uint8_t flags) {
    const std::uint64_t to = pick(kLine * kLines);
    Bytes payload(1 + pick(28));
    for (std::uint8_t& byte : payload) byte = static_cast<std::uint8_t>(random_());
    std::memcpy(&target_[to], payload.data(), payload.size());
    return pair_.a.write_inline(pair_.far(to), payload, flags);
  }
  std::uint16_t atomic(std::uint8_t flags) {
    const std::uint64_t at = pick(kLines) * 8, result = fresh(8), value = random_();
    std::uint64_t old = 0;
    std::memcpy(&old, &target_[at], 8);
    std::memcpy(&source_[result], &old, 8);
    const bool add = pick(2) == 0;
    const std::uint64_t compare = pick(2) == 0 ? old : value;
    const std::uint64_t now = add ? old + value : old == compare ? value : old;
    std::memcpy(&target_[at], &now, 8);
    return add ? pair_.a.fetch_add(pair_.far(at), pair_.near(result, 8), value, flags)
               : pair_.a.compare_swap(pair_.far(at), pair_.near(result, 8), compare, value, flags);
  }

  Pair& pair_;
  std::mt19937_64 random_;
  std::vector<std::uint8_t> target_, source_;
  std::uint64_t used_ = 0;
};

TEST_CASE("random_programs_agree_with_the_model_under_every_adversary") {
  const char* adversary = GENERATE("off", "on", "all", "reorder_bytes=1,drop=1,late_start=1",
                                   "late_read=1,late_atomic=1,batch=1", "coalesce=1,starve=1",
                                   "late_completion=1,skip=1");
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 2 : 6); ++seed) {
    INFO("GSHNIC_ADVERSARY=" << adversary << " seed " << seed);
    Pair pair({.seed = seed, .adversary = adversary}, {}, {.mtu = seed % 2 ? 1024u : 4096u},
              {.log_initiator_reads = static_cast<std::uint32_t>(seed % 5)});
    Program program(pair, seed);
    for (int i = 0; i < 8; ++i) program.batch();
    INFO(pair.engine.violations());
    CHECK(pair.engine.counters().violations == 0);
  }
}

TEST_CASE("decisions_repeat_with_the_seed_and_differ_without") {
  using soft::Adversary;
  using soft::Behaviour;
  const soft::AdversaryOptions options = soft::parse_adversary("all");
  const Adversary a(options, 7), b(options, 7), c(options, 8);
  int same = 0, taken = 0;
  for (std::uint64_t queue = 0; queue < 4; ++queue) {
    for (std::uint64_t n = 0; n < 1000; ++n) {
      CHECK(a.delay_ns(Behaviour::kLateStart, queue, n) ==
            b.delay_ns(Behaviour::kLateStart, queue, n));
      const bool decided = a.decides(Behaviour::kReorderBytes, queue, n);
      same += decided == c.decides(Behaviour::kReorderBytes, queue, n);
      taken += decided;
    }
  }
  CHECK(taken > 1700);
  CHECK(taken < 2300);
  CHECK(same < 2300);
  CHECK_FALSE(a.decides(Behaviour::kTrailingRead, 0, 0));
}

/// Two writes and an atomic, by two keys of the same memory that differ in PCIe's ordering.
struct TwoKeys {
  explicit TwoKeys(const char* adversary = "reorder_writes=0.5")
      : engine({.adversary = adversary}) {
    a.connect(b.qpn());
    b.connect(a.qpn());
  }
  soft::Engine engine;
  std::uint32_t pd = engine.create_pd();
  Memory memory{engine, pd, 4096};
  std::uint32_t relaxed =
      engine.create_region({.pd = pd,
                            .address = memory.data(),
                            .bytes = 4096,
                            .iova = memory.address(),
                            .access = 15 | std::uint32_t{soft::kRelaxedOrdering}});
  Queue a{engine, pd, {.log_entries = 8}}, b{engine, pd};

  ~TwoKeys() { engine.destroy_region(relaxed); }
  [[nodiscard]] std::uint32_t key(bool is_relaxed) const {
    return is_relaxed ? relaxed : memory.key();
  }
  void finish() {
    REQUIRE_FALSE(a.ring_and_wait(static_cast<std::uint16_t>(a.next() - 1)).error());
  }
  /// Returns how many of 100 writes of a word arrived after a later one by `second`.
  int overtaken(std::uint32_t first, std::uint32_t second, std::uint8_t flags = 8) {
    int count = 0;
    for (std::uint8_t round = 1; round <= 100; ++round) {
      a.write_inline({memory.address(), first}, Bytes(8, round), 0);
      a.write_inline({memory.address(), second}, Bytes(8, static_cast<std::uint8_t>(round + 100)),
                     flags);
      finish();
      count += memory.data()[0] == round;
    }
    return count;
  }
  /// Counts like overtaken(), with an atomic.
  int passed(std::uint32_t first, std::uint32_t second) {
    int count = 0;
    for (std::uint64_t round = 0; round < 100; ++round) {
      Bytes payload(8, 0);
      payload[0] = static_cast<std::uint8_t>(round);
      a.write_inline({memory.address(64), first}, payload, 0);
      a.fetch_add({memory.address(64), second}, {memory.address(128), 8, memory.key()}, 0);
      finish();
      count += *memory.as<std::uint64_t>(128) != round;
    }
    return count;
  }
};

TEST_CASE("only_accesses_by_a_relaxed_key_overtake_earlier_writes") {
  TwoKeys keys;
  const bool first = GENERATE(false, true), second = GENERATE(false, true);
  CAPTURE(first, second);
  const bool may_pass = first && second;
  CHECK((keys.overtaken(keys.key(first), keys.key(second)) > 0) == may_pass);
  CHECK((keys.passed(keys.key(first), keys.key(second)) > 0) == may_pass);
}

TEST_CASE("relaxed_writes_keep_their_order_without_an_adversary_and_by_strong_ordering") {
  TwoKeys in_order("off"), keys;
  CHECK(in_order.overtaken(in_order.relaxed, in_order.relaxed) == 0);
  constexpr std::uint8_t kSmallFence = 0x48, kStrongOrdering = 0x68, kFence = 0x88;
  CHECK(keys.overtaken(keys.relaxed, keys.relaxed, kStrongOrdering) == 0);
  CHECK(keys.overtaken(keys.relaxed, keys.relaxed, kSmallFence) > 0);
  CHECK(keys.overtaken(keys.relaxed, keys.relaxed, kFence) > 0);
}

TEST_CASE("a_complete_write_is_in_memory_though_it_was_sent_twice") {
  TwoKeys keys("reorder_writes=1,drop_reply=1");
  for (std::uint8_t round = 1; round <= 100; ++round) {
    // The answer to the first one is lost, and the second one is sent again while it is held.
    for (const std::uint64_t at : {0u, 64u})
      keys.a.write_inline({keys.memory.address(at), keys.relaxed}, Bytes(8, round));
    keys.finish();
    REQUIRE(__atomic_load_n(keys.memory.data() + 64, __ATOMIC_ACQUIRE) == round);
    REQUIRE(__atomic_load_n(keys.memory.data(), __ATOMIC_ACQUIRE) == round);
  }
}

TEST_CASE("immediate_data_comes_after_writes_by_a_relaxed_key_that_came_before_it") {
  soft::Engine engine({.adversary = "reorder_writes=1"});
  const std::uint32_t pd = engine.create_pd();
  Memory memory(engine, pd, 4096, 15 | std::uint32_t{soft::kRelaxedOrdering}),
      receives(engine, pd, 4096);
  soft::ReceiveAttributes of_queue;
  of_queue.entries = receives.data();
  of_queue.log_entry_bytes = 4;
  of_queue.record = receives.data() + 1024;
  Queue a(engine, pd);
  Queue b(engine, pd, {.log_cq = 8, .collapsed = false, .receives = of_queue});
  a.connect(b.qpn());
  b.connect(a.qpn());
  for (std::uint8_t round = 1; round <= 100; ++round) {
    *receives.as<std::uint32_t>(1024) = __builtin_bswap32(round);
    a.write_inline({memory.address(), memory.key()}, Bytes(8, round), 0);
    Bytes immediate = a.control(0x09, 2, 8);
    Queue::remote(immediate, 0, 0);
    const std::uint16_t last = a.post(immediate);
    a.ring();
    CHECK_FALSE(b.wait_next().error());
    REQUIRE(__atomic_load_n(memory.data(), __ATOMIC_ACQUIRE) == round);
    CHECK_FALSE(a.wait(last).error());
  }
}

TEST_CASE("a_region_deregistered_before_a_held_write_is_an_error_or_has_it") {
  soft::Engine engine({.adversary = "reorder_writes=1"});
  const std::uint32_t pd = engine.create_pd();
  int late = 0;
  for (int round = 0; round < 400 && late < 8; ++round) {
    Memory memory(engine, pd, 4096, 15 | std::uint32_t{soft::kRelaxedOrdering});
    Queue a(engine, pd), b(engine, pd);
    a.connect(b.qpn());
    b.connect(a.qpn());
    const std::uint16_t index = a.write_inline({memory.address(), memory.key()}, Bytes(8, 9));
    a.ring();
    const auto taken = static_cast<std::uint64_t>(round) + 1;
    if (round % 2 != 0) REQUIRE(eventually([&] { return engine.counters().wqes == taken; }));
    memory.drop();
    const Cqe cqe = a.wait(index);
    late += cqe.error();
    REQUIRE(memory.data()[0] == (cqe.error() ? 0 : 9));
    if (cqe.error()) REQUIRE(unsigned{cqe.syndrome} == unsigned{kAccess});
  }
  CHECK(late > 0);
}

TEST_CASE("completions_are_omitted_only_if_a_later_one_covers_them") {
  const bool collapsed = GENERATE(true, false), skips = GENERATE(true, false);
  const std::uint8_t between = GENERATE(std::uint8_t{8}, std::uint8_t{0});
  Pair pair({.adversary = skips ? "skip=1" : "off"}, {.log_cq = 6, .collapsed = collapsed});
  for (int i = 0; i < 20; ++i) {
    pair.a.nop();
    pair.a.nop(between);
  }
  pair.a.nop();
  pair.a.ring();
  const std::uint64_t all = between != 0 ? 41 : 21;
  CAPTURE(collapsed, skips, all);
  if (!skips || !collapsed || between == 0) {
    CHECK(eventually([&] { return pair.engine.counters().cqes == all; }));
  } else {
    CHECK_FALSE(pair.a.wait(40).error());
    CHECK(pair.engine.counters().cqes == 1);
  }
}

TEST_CASE("a_read_by_any_key_comes_after_writes_by_a_relaxed_one") {
  TwoKeys keys;
  const bool relaxed = GENERATE(false, true);
  for (std::uint8_t round = 1; round <= 50; ++round) {
    keys.a.write_inline({keys.memory.address(64), keys.relaxed}, Bytes(8, round), 0);
    keys.a.read({keys.memory.address(64), keys.key(relaxed)},
                {keys.memory.address(128), 8, keys.memory.key()});
    keys.finish();
    REQUIRE(keys.memory.data()[128] == round);
  }
}

TEST_CASE("the_data_of_a_read_trails_its_completion_only_on_request_and_a_dump_flushes_it") {
  Pair pair({.adversary = "trailing_read=1"});
  for (std::uint64_t round = 1; round <= 50; ++round) {
    __atomic_store_n(pair.target.as<std::uint64_t>(0), round, __ATOMIC_RELEASE);
    pair.a.read(pair.far(0), pair.near(0, 8), 0);
    Bytes dump = pair.a.control(0x23, 2, 0x48);
    Queue::data(dump, pair.source.address(64), 8, pair.source.key());
    REQUIRE_FALSE(pair.a.ring_and_wait(pair.a.post(dump)).error());
    REQUIRE(*pair.source.as<std::uint64_t>(0) == round);
  }
  // Without a DUMP it arrives some time later.
  __atomic_store_n(pair.target.as<std::uint64_t>(0), std::uint64_t{1000}, __ATOMIC_RELEASE);
  REQUIRE_FALSE(pair.a.ring_and_wait(pair.a.read(pair.far(0), pair.near(0, 8))).error());
  CHECK(eventually(
      [&] { return __atomic_load_n(pair.source.as<std::uint64_t>(0), __ATOMIC_ACQUIRE) == 1000; }));
}

TEST_CASE("the_data_of_a_write_trails_words_only_on_request_until_the_target_reads") {
  enum class By { kTime, kDump, kRead, kSource, kWordOfItsOwn };
  const By by = GENERATE(By::kTime, By::kDump, By::kRead, By::kSource, By::kWordOfItsOwn);
  CAPTURE(static_cast<int>(by));
  Pair pair({.adversary = "trailing_write=1"});
  const auto* payload = pair.target.as<std::uint64_t>(0);
  const auto* word = pair.target.as<std::uint64_t>(64);
  std::uint64_t value = 6;
  bool at_once = true;
  const auto arrived = [&] { return __atomic_load_n(payload, __ATOMIC_ACQUIRE) == value; };
  // On a busy machine this thread may look only when the data has come by time.
  do {
    *pair.source.as<std::uint64_t>(0) = ++value;
    pair.a.write(pair.far(0), pair.near(0, 16), 0);
    REQUIRE_FALSE(
        pair.a.ring_and_wait(pair.a.write_inline(pair.far(64), {1, 0, 0, 0, 0, 0, 0, 0})).error());
    REQUIRE(__atomic_load_n(word, __ATOMIC_ACQUIRE) == 1);
    at_once = arrived();
  } while (at_once && value < 100);
  REQUIRE_FALSE(at_once);
  switch (by) {
    case By::kTime:
      break;
    case By::kDump: {
      Bytes dump = pair.b.control(0x23, 2, 0x48);
      Queue::data(dump, pair.target.address(64), 8, pair.target.key());
      REQUIRE_FALSE(pair.b.ring_and_wait(pair.b.post(dump)).error());
      REQUIRE(arrived());
      break;
    }
    case By::kRead:
      REQUIRE_FALSE(pair.a.ring_and_wait(pair.a.read(pair.far(64), pair.near(64, 8))).error());
      REQUIRE(arrived());
      break;
    case By::kSource:
      REQUIRE_FALSE(
          pair.b
              .ring_and_wait(pair.b.write({pair.source.address(128), pair.source.key()},
                                          {pair.target.address(64), 8, pair.target.key()}))
              .error());
      REQUIRE(arrived());
      break;
    case By::kWordOfItsOwn:
      REQUIRE_FALSE(
          pair.a.ring_and_wait(pair.a.write_inline(pair.far(8), {9, 0, 0, 0, 0, 0, 0, 0})).error());
      REQUIRE(arrived());
      CHECK(*pair.target.as<std::uint64_t>(8) == 9);
  }
  CHECK(eventually(arrived));
}

TEST_CASE("a_read_without_a_fence_may_see_a_later_write") {
  Pair pair({.adversary = "late_read=1"});
  int later = 0;
  for (int round = 0; round < 100; ++round) {
    *pair.target.as<std::uint64_t>(0) = 1;
    pair.a.read(pair.far(0), pair.near(0, 8), 0);
    pair.a.write_inline(pair.far(0), {2, 0, 0, 0, 0, 0, 0, 0});
    REQUIRE_FALSE(pair.a.ring_and_wait(static_cast<std::uint16_t>(pair.a.next() - 1)).error());
    later += *pair.source.as<std::uint64_t>(0) == 2;
  }
  CHECK(later > 0);
  // It tries every fence (mlx5dv.h, MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE and those after it).
  for (int round = 0; round < 40; ++round) {
    const auto fence = static_cast<std::uint8_t>(0x28 + round % 4 * 0x20);
    *pair.target.as<std::uint64_t>(0) = 1;
    pair.a.read(pair.far(0), pair.near(0, 8), 0);
    pair.a.write_inline(pair.far(0), {2, 0, 0, 0, 0, 0, 0, 0}, fence);
    REQUIRE_FALSE(pair.a.ring_and_wait(static_cast<std::uint16_t>(pair.a.next() - 1)).error());
    REQUIRE(*pair.source.as<std::uint64_t>(0) == 1);
  }
}

TEST_CASE("late_flushes_leave_the_first_error_visible_for_a_while") {
  Pair pair({.adversary = "late_flush=1"});
  pair.a.write({0, 0x99}, pair.near(0, 8), 0);
  for (int i = 0; i < 50; ++i) pair.a.nop(0);
  const std::int64_t begin = clock_ns();
  pair.a.ring();
  CHECK(eventually([&] {
    const auto cqe = pair.a.peek();
    return cqe && cqe->counter == 50;
  }));
  const soft::Adversary adversary(soft::parse_adversary("late_flush=1"), 1);
  std::int64_t least = 0;
  for (std::uint64_t i = 0; i < 50; ++i)
    least += adversary.delay_ns(soft::Behaviour::kLateFlush, 0, i);
  CHECK(least > 100'000);
  CHECK(clock_ns() - begin >= least);
  CHECK(pair.engine.counters().cqes == 51);
}

}  // namespace
}  // namespace gshmem::test

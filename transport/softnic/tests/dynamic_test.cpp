// Dynamic connections: initiators (DCI) and targets (DCT).
#include "transport/softnic/tests/softnic.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <vector>

namespace gshmem::test {
namespace {

using soft::QpState;

constexpr std::uint64_t kKey = 0x0123456789abcdef;

struct Place {
  std::uint32_t target = 0;
  std::uint64_t key = kKey;
  soft::Route route = {};
};

/// mlx5_wqe_av, of the long form or the brief one.
Bytes vector_of(const Place& to, bool brief = false) {
  Bytes vector;
  append64(vector, to.key);
  append32(vector, to.target | (brief ? 0 : 1u << 31));
  append32(vector, to.route.mac != 0 ? to.route.udp_source : to.route.lid);
  if (brief) return vector;
  append32(vector, 0);
  append32(vector, static_cast<std::uint32_t>(to.route.mac >> 16));
  append32(vector,
           static_cast<std::uint32_t>(to.route.mac << 16 & 0xffff0000) | to.route.hop_limit);
  append32(vector, std::uint32_t{to.route.global} << 30 | std::uint32_t{to.route.gid_index} << 20);
  vector.insert(vector.end(), to.route.gid.begin(), to.route.gid.end());
  return vector;
}

/// A completion queue and memory, and targets that have both.
class Targets {
 public:
  Targets(soft::Engine& engine, std::uint32_t pd, std::size_t count,
          soft::TargetAttributes attributes = {})
      : engine_(engine), entries_(64 * 64 / 4), memory(engine, pd, kBytes, 15, 0) {
    uar_ = engine.create_uar(&page_);
    std::memset(first_entry(), 0xff, 64 * 32);
    attributes.cq = cq_ = engine.create_cq({.buffer = first_entry(),
                                            .log_entries = 5,
                                            .ignore_overrun = true,
                                            .record = record_,
                                            .uar = uar_});
    attributes.pd = pd;
    attributes.access_key = kKey;
    attributes.access = {true, true, true};
    for (std::size_t i = 0; i < count; ++i) numbers.push_back(engine.create_target(attributes));
  }
  ~Targets() {
    for (const std::uint32_t number : numbers) engine_.destroy_target(number);
    engine_.destroy_cq(cq_);
    engine_.destroy_uar(uar_);
  }
  Targets(const Targets&) = delete;

  [[nodiscard]] Queue::Far far(std::uint64_t offset) const {
    return {memory.address(offset), memory.key()};
  }
  /// The n-th completion's opcode, when it is there; 15: it is not.
  [[nodiscard]] unsigned opcode(std::size_t n) {
    const std::uint32_t last = __atomic_load_n(first_entry() + n * 16 + 15, __ATOMIC_ACQUIRE);
    return __builtin_bswap32(last) >> 4 & 0xf;
  }

 private:
  [[nodiscard]] std::uint32_t* first_entry() {
    const auto raw = reinterpret_cast<std::uintptr_t>(entries_.data());
    return entries_.data() + (64 - raw % 64) % 64 / 4;
  }
  static constexpr std::uint64_t kBytes = 1 << 20;
  soft::Engine& engine_;
  std::vector<std::uint32_t> entries_;
  alignas(64) std::uint32_t record_[2] = {};
  void* page_ = nullptr;
  std::uint32_t uar_ = 0, cq_ = 0;

 public:
  Memory memory;
  std::vector<std::uint32_t> numbers;
};

/// An initiator and targets of one device.
struct Star {
  explicit Star(std::size_t targets, const soft::EngineOptions& options = {})
      : engine(options),
        pd(engine.create_pd()),
        source(engine, pd, 1 << 20, 15, 0),
        ends(engine, pd, targets),
        queue(std::make_unique<Queue>(engine, pd,
                                      QueueOptions{.service = soft::Service::kInitiator})) {
    start();
  }
  void start(const soft::QpRts& rts = {}) const { start(*queue, rts); }
  static void start(Queue& queue, const soft::QpRts& rts = {}) { queue.connect(0, {}, rts); }
  void aim(std::size_t target) const {
    queue->set_vector(vector_of({.target = ends.numbers[target]}));
  }
  [[nodiscard]] Queue::Near near(std::uint64_t offset, std::uint32_t bytes) const {
    return {source.address(offset), bytes, source.key()};
  }
  Cqe write(std::uint64_t at, std::uint32_t bytes = 8) const {
    return queue->ring_and_wait(queue->write(ends.far(at), near(at, bytes)));
  }

  soft::Engine engine;
  std::uint32_t pd;
  Memory source;
  Targets ends;
  std::unique_ptr<Queue> queue;
};

/// A shared receive queue of one buffer. A link comes before it.
struct OneBuffer {
  OneBuffer(Star& star, std::uint64_t offset, std::uint32_t bytes) {
    Bytes entry(16);
    Queue::data(entry, star.source.address(offset), bytes, star.source.key());
    std::copy(entry.begin(), entry.end(), entries);
    number = star.engine.create_receives({.pd = star.pd,
                                          .entries = entries,
                                          .log_entries = 1,
                                          .log_entry_bytes = 5,
                                          .record = record,
                                          .order = soft::ReceiveOrder::kLinkedRing});
  }
  void provide() { __atomic_store_n(record, __builtin_bswap32(1), __ATOMIC_RELEASE); }
  alignas(64) std::uint8_t entries[64] = {};
  alignas(64) std::uint32_t record[2] = {};
  std::uint32_t number = 0;
};

/// The NIC writes there at the same time, which TSan must not see: no completion orders it.
__attribute__((no_sanitize("thread"))) std::uint8_t arrived(const std::uint8_t* at) {
  return __atomic_load_n(at, __ATOMIC_RELAXED);
}

}  // namespace

TEST_CASE("an_initiator_reaches_one_target_after_another_and_loses_nothing") {
  const char* adversary = GENERATE("off", "drop=0.3,drop_reply=0.3,late_read=0.5,late_atomic=0.5");
  constexpr std::size_t kTargets = 3, kRounds = 30;
  constexpr std::uint32_t kPiece = 10000;  // three packets
  Star star(kTargets, {.adversary = adversary});
  std::iota(star.source.data(), star.source.data() + 3 * kPiece, std::uint8_t{1});
  std::uint16_t last = 0;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::size_t target = round * 7 % 5 % kTargets;
    star.aim(target);
    star.queue->write(star.ends.far(kPiece * target), star.near(kPiece * target, kPiece), 0);
    last = star.queue->fetch_add(star.ends.far(1 << 19), star.near(1 << 19, 8), 1);
    if (round % 5 == 4) REQUIRE_FALSE(star.queue->ring_and_wait(last).error());
  }
  CHECK(std::equal(star.source.data(), star.source.data() + 3 * kPiece, star.ends.memory.data()));
  CHECK(*star.ends.memory.as<std::uint64_t>(1 << 19) == kRounds);
  CHECK(*star.source.as<std::uint64_t>(1 << 19) == kRounds - 1);
  CHECK(star.engine.violations().empty());
}

TEST_CASE("an_initiator_leaves_a_target_when_all_before_is_done") {
  // The data read from the first target is late, and an RC queue pair would not wait for it.
  Star star(2, {.adversary = "late_read=1"});
  std::memset(star.ends.memory.data(), 0x33, 4096);
  for (int round = 0; round < 20; ++round) {
    std::memset(star.source.data(), 0x11, 4096);
    std::memset(star.source.data() + 8192, round + 1, 8);
    star.aim(0);
    star.queue->read(star.ends.far(0), star.near(0, 4096), 0);
    star.aim(1);
    const std::uint16_t last = star.queue->write(star.ends.far(8192), star.near(8192, 8));
    star.queue->ring();
    auto* const seen = star.ends.memory.as<std::uint8_t>(8192);
    REQUIRE(eventually([&] { return __atomic_load_n(seen, __ATOMIC_ACQUIRE) == round + 1; }));
    CHECK(int{__atomic_load_n(star.source.data() + 4095, __ATOMIC_ACQUIRE)} == 0x33);
    CHECK_FALSE(star.queue->wait(last).error());
  }
}

TEST_CASE("a_wrong_access_key_is_counted_told_and_not_answered") {
  Star star(1);
  std::atomic<int> told = 0;
  const int listener = star.engine.listen([&](const soft::DeviceEvent& event) {
    told += event.kind == soft::DeviceEvent::Kind::kKeyViolation &&
            event.number == star.ends.numbers[0];
  });
  star.queue->reset();
  star.start({.retries = 1, .ack_timeout = 1});
  star.queue->set_vector(vector_of({.target = star.ends.numbers[0], .key = kKey ^ 1ull << 40}));
  const Cqe cqe = star.write(0);
  CHECK(unsigned{cqe.syndrome} == unsigned{kRetry});
  CHECK(unsigned{cqe.vendor} == 0x81);
  CHECK(star.engine.key_violations(star.ends.numbers[0]) == 2);
  CHECK(told == 2);
  CHECK(star.engine.state(star.queue->qpn()) == QpState::kError);
  // The target is as good as before.
  star.queue->reset();
  star.start();
  star.aim(0);
  CHECK_FALSE(star.write(0).error());
  star.engine.ignore_events(listener);
}

TEST_CASE("a_number_that_is_no_target_ends_as_retries_exceeded") {
  Star star(1);
  star.queue->reset();
  star.start({.retries = 1, .ack_timeout = 1});
  Queue other(star.engine, star.pd);
  other.connect(star.queue->qpn());
  star.queue->set_vector(vector_of({.target = GENERATE(0, 1) == 0 ? other.qpn() : 0x3ffffu}));
  CHECK(unsigned{star.write(0).syndrome} == unsigned{kRetry});
}

TEST_CASE("an_error_ends_an_initiator_and_not_its_target") {
  Star star(2);
  Queue failing(star.engine, star.pd,
                {.log_cq = 3, .collapsed = false, .service = soft::Service::kInitiator});
  Star::start(failing);
  const auto aim = [&](std::size_t n) {
    failing.set_vector(vector_of({.target = star.ends.numbers[n]}));
  };
  aim(0);
  failing.write({0, 0x4711}, star.near(0, 8));
  aim(1);
  failing.write(star.ends.far(64), star.near(0, 8));
  failing.ring();
  const Cqe cqe = failing.wait_next();
  CHECK(unsigned{cqe.syndrome} == unsigned{kAccess});
  CHECK(unsigned{cqe.vendor} == 0x88);
  CHECK(unsigned{failing.wait_next().syndrome} == unsigned{kFlush});
  star.aim(0);
  CHECK_FALSE(star.write(8).error());
  // The one that failed begins anew, and the target outlives it.
  star.engine.modify_to_reset(failing.qpn());
  failing.set_next(0);
  failing.store_record(0);
  Star::start(failing);
  aim(0);
  failing.write(star.ends.far(16), star.near(0, 8));
  failing.ring();
  CHECK_FALSE(failing.wait_next().error());
  failing.destroy_qp();
  CHECK_FALSE(star.write(24).error());
}

TEST_CASE("targets_of_ethernet_are_reached_by_their_own_address_only") {
  const std::uint8_t index = GENERATE(std::uint8_t{0}, std::uint8_t{3});  // RoCE v1, RoCE v2
  soft::EngineOptions options;
  options.profile.link = soft::Profile::Link::kEthernet;
  Star star(0, options);
  const Targets there(star.engine, star.pd, 1, {.gid_index = index});
  Place place{.target = there.numbers[0], .route = route_to(star.engine.device(), index)};
  star.queue->set_vector(vector_of(place));
  CHECK_FALSE(star.queue->ring_and_wait(star.queue->write(there.far(0), star.near(0, 8))).error());
  star.queue->reset();
  star.start({.retries = 1, .ack_timeout = 1});
  std::uint8_t expected = kRetry;
  bool brief = false;
  SECTION("another MAC address") { place.route.mac ^= 1; }
  SECTION("another GID of the port") {
    place.route.gid = star.engine.device().gids[index ^ 2].bytes;
  }
  SECTION("from the other version") { place.route.gid_index ^= 1; }
  SECTION("from a GID that there is not") { place.route.gid_index = 9, expected = kBadOperation; }
  SECTION("without a MAC address") { brief = true, expected = kBadOperation; }
  star.queue->set_vector(vector_of(place, brief));
  const Cqe cqe = star.queue->ring_and_wait(star.queue->write(there.far(0), star.near(0, 8)));
  CHECK(unsigned{cqe.syndrome} == unsigned{expected});
}

TEST_CASE("a_brief_address_vector_is_enough_on_infiniband") {
  Star star(1);
  const soft::Route route{.lid = star.engine.device().lid};
  star.queue->set_vector(vector_of({.target = star.ends.numbers[0], .route = route}, true));
  *star.source.as<std::uint64_t>(8) = 4711;
  CHECK_FALSE(star.write(8).error());
  CHECK(*star.ends.memory.as<std::uint64_t>(8) == 4711);
}

TEST_CASE("messages_to_targets_come_out_of_their_shared_queue") {
  Star star(0);
  OneBuffer buffer(star, 4096, 16);
  {
    Targets there(star.engine, star.pd, 2, {.receives = buffer.number, .min_rnr_timer = 1});
    std::memset(star.source.data(), 0x5a, 16);
    star.queue->set_vector(vector_of({.target = there.numbers[1]}));
    const std::uint16_t index = star.queue->send(star.near(0, 16));
    star.queue->ring();
    CHECK(there.opcode(0) == 15);  // there is no buffer yet
    buffer.provide();
    CHECK_FALSE(star.queue->wait(index).error());
    CHECK(there.opcode(0) == 2);  // MLX5_CQE_RESP_SEND
    CHECK(*star.source.as<std::uint8_t>(4096 + 15) == 0x5a);
    CHECK_THROWS_AS(star.engine.destroy_receives(buffer.number), soft::EngineError);
  }
  star.engine.destroy_receives(buffer.number);
}

TEST_CASE("an_initiator_is_connected_to_one_target_at_a_time_and_to_none_after_its_end") {
  constexpr std::size_t kTargets = 40;
  Star star(kTargets);
  for (std::size_t i = 0; i < kTargets; ++i) {
    star.aim(i);
    REQUIRE_FALSE(star.write(8 * i).error());
  }
  const auto connected = [&] {
    std::size_t all = 0;
    for (const std::uint32_t number : star.ends.numbers) all += star.engine.connections(number);
    return all;
  };
  CHECK(eventually([&] { return connected() == 1; }));
  CHECK(star.engine.connections(star.ends.numbers.back()) == 1);
  if (GENERATE(true, false)) {
    star.queue->reset();
  } else {
    star.queue->destroy_qp();
  }
  CHECK(eventually([&] { return connected() == 0; }));
}

TEST_CASE("a_buffer_that_was_taken_for_a_message_without_an_end_comes_back_with_an_error") {
  // The first half of a message arrives, the rest is lost at first, and its initiator is reset.
  Star star(0, {.adversary = "drop=1"});
  constexpr std::uint32_t kBytes = 1 << 19;
  OneBuffer buffer(star, kBytes, kBytes);
  buffer.provide();
  {
    Targets there(star.engine, star.pd, 1, {.receives = buffer.number, .min_rnr_timer = 1});
    std::memset(star.source.data(), 0x5a, kBytes);
    star.queue->set_vector(vector_of({.target = there.numbers[0]}));
    star.queue->send(star.near(0, kBytes));
    star.queue->ring();
    const auto* first = star.source.as<std::uint8_t>(kBytes);
    REQUIRE(eventually([&] { return arrived(first) == 0x5a; }));
    star.queue->reset();
    // While the wire is full nobody tells the target: the initiator's next connection does.
    star.start();
    const std::uint16_t index = star.queue->write(there.far(0), star.near(0, 8));
    CHECK_FALSE(star.queue->ring_and_wait(index).error());
    // It may have been complete by then.
    CHECK(eventually([&] { return there.opcode(0) == 14 || there.opcode(0) == 2; }));
  }
  star.engine.destroy_receives(buffer.number);
}

}  // namespace gshmem::test

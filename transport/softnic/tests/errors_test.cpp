// Tests errors of the soft NIC: every row of the table of syndromes that this NIC can produce, the
// states of both queue pairs afterwards, flushes, and the errors of the control path.
#include "transport/softnic/tests/softnic.h"

#include <catch2/catch.hpp>

#include <functional>
#include <map>
#include <vector>

namespace gshmem::test {
namespace {

using Catch::Contains;
using soft::EngineError;
using soft::QpState;

/// Returns the vendor's byte of a ConnectX, from public reports; 0: unknown.
unsigned vendor_of(std::uint8_t syndrome) {
  const std::map<std::uint8_t, unsigned> known = {{kProtection, 0x53},      {kBadOperation, 0x68},
                                                  {kBadRequest, 0x8a},      {kAccess, 0x88},
                                                  {kRemoteOperation, 0x89}, {kRetry, 0x81}};
  const auto found = known.find(syndrome);
  return found != known.end() ? found->second : 0;
}

/// `post` posts the bad WQE after a good one and before two more.
void expect_error(Pair& pair, std::uint8_t syndrome,
                  const std::function<std::uint16_t(Pair&)>& post, QpState peer = QpState::kRts) {
  pair.a.fetch_add(pair.far(1024), pair.near(1024, 8), 1);
  const std::uint16_t bad = post(pair);
  pair.a.fetch_add(pair.far(1024), pair.near(1032, 8), 1, 0);
  pair.a.fetch_add(pair.far(1024), pair.near(1032, 8), 1);
  pair.a.ring();
  INFO(pair.engine.violations());
  Cqe cqe = pair.a.wait_next();
  CHECK_FALSE(cqe.error());
  cqe = pair.a.wait_next();
  CHECK(cqe.error());
  CHECK(unsigned{cqe.syndrome} == unsigned{syndrome});
  CHECK(cqe.counter == bad);
  CHECK(cqe.qpn == pair.a.qpn());
  CHECK(unsigned{cqe.wqe_opcode} == unsigned{pair.a.kept_opcode(bad)});
  CHECK(unsigned{cqe.vendor} == vendor_of(syndrome));
  for (int i = 0; i < 2; ++i) {  // one flush each, signaled or not
    cqe = pair.a.wait_next();
    CHECK(cqe.error());
    CHECK(cqe.syndrome == kFlush);
    CHECK(cqe.vendor == 0xf9);
    CHECK(cqe.wqe_opcode == 0x12);
  }
  CHECK(*pair.target.as<std::uint64_t>(1024) == 1);  // nothing after it was executed
  CHECK(pair.engine.state(pair.a.qpn()) == QpState::kError);
  CHECK(pair.engine.state(pair.b.qpn()) == peer);
  // Entries that are posted later are flushed as well.
  const std::uint16_t late = pair.a.nop(0);
  pair.a.ring();
  cqe = pair.a.wait_next();
  CHECK(cqe.counter == late);
  CHECK(cqe.syndrome == kFlush);
  CHECK_FALSE(pair.a.poll());
}

constexpr QueueOptions kOrdinary = {.log_cq = 4, .collapsed = false};

TEST_CASE("local_protection_errors") {
  using Post = std::function<std::uint16_t(Pair&)>;
  Pair pair({}, kOrdinary);
  const std::uint32_t other_pd = pair.engine.create_pd();
  Memory foreign(pair.engine, other_pd, 4096);
  Memory read_only(pair.engine, pair.pd, 4096, 0);
  Memory gone(pair.engine, pair.pd, 4096);
  const std::uint32_t stale = gone.key();
  gone.drop();
  // Selected by index: the test case runs once for each, with other local variables each time.
  const std::vector<Post> posts = {
      Post([](Pair& p) {
        return p.a.write(p.far(0), {p.source.address(), 8, 0x77});
      }),
      Post([=](Pair& p) {
        return p.a.write(p.far(0), {p.source.address(), 8, stale});
      }),
      Post([&](Pair& p) {
        return p.a.write(p.far(0), {foreign.address(), 8, foreign.key()});
      }),
      Post([](Pair& p) { return p.a.write(p.far(0), p.near(Pair::kBytes - 4, 8)); }),
      Post([](Pair& p) {
        return p.a.write(p.far(0), {~0ull - 3, 8, p.source.key()});
      }),
      Post([&](Pair& p) {
        return p.a.read(p.far(0), {read_only.address(), 8, read_only.key()});
      }),
      Post([&](Pair& p) {
        return p.a.fetch_add(p.far(0), {read_only.address(), 8, read_only.key()}, 1);
      })};
  const char* const reasons[] = {"no region has this key",
                                 "no region has this key",
                                 "the region belongs to another protection domain",
                                 "outside of the region",
                                 "outside of the region",
                                 "the region does not allow this access",
                                 "the region does not allow this access"};
  const std::size_t which = GENERATE(range(std::size_t{0}, std::size_t{7}));
  expect_error(pair, kProtection, posts[which]);
  CHECK_THAT(pair.engine.violations(),
             Contains(std::string(": ") + reasons[which] + " (syndrome 0x04)"));
}

TEST_CASE("local_operation_and_length_errors") {
  Pair pair({}, kOrdinary, {.log_message_max = 10});
  struct Case {
    std::uint8_t syndrome;
    std::function<std::uint16_t(Pair&)> post;
  };
  const auto bytes = [](std::function<void(Bytes&)> spoil) {
    return [spoil](Pair& p) {
      Bytes wqe = p.a.control(0x08, 3, 8);
      Queue::remote(wqe, p.target.address(), p.target.key());
      Queue::data(wqe, p.source.address(), 8, p.source.key());
      spoil(wqe);
      return p.a.post(wqe);
    };
  };
  const Case one = GENERATE_REF(
      Case{kBadOperation, bytes([](Bytes& w) { w[3] = 0x13; })},  // unknown opcode
      Case{kBadOperation, bytes([](Bytes& w) { w[3] = 0x0e; })},  // TSO
      Case{kBadOperation, bytes([](Bytes& w) { w[7] = 1; })},     // ds too small
      Case{kBadLength, bytes([](Bytes& w) { w[7] = 4; })},      // ds too big: a segment of 0 bytes
      Case{kBadOperation, bytes([](Bytes& w) { w[6] ^= 1; })},  // of another queue pair
      Case{kBadOperation, bytes([](Bytes& w) { w[2] ^= 1; })},  // index
      Case{kBadOperation, bytes([](Bytes& w) { w[11] = 0xa8; })},        // fence mode
      Case{kBadLength, bytes([](Bytes& w) { w[35] = 0; })},              // 2 GiB
      Case{kBadLength, bytes([](Bytes& w) { w[34] = 4, w[35] = 1; })});  // above log_msg_max
  expect_error(pair, one.syndrome, one.post);
  CHECK_THAT(pair.engine.violations(), Contains("000:"));  // with the entry's bytes
}

TEST_CASE("remote_access_errors") {
  using Post = std::function<std::uint16_t(Pair&)>;
  Pair pair({}, kOrdinary);
  const std::uint32_t other_pd = pair.engine.create_pd();
  Memory foreign(pair.engine, other_pd, 4096);
  Memory local(pair.engine, pair.pd, 4096, soft::kLocalWrite);
  Memory gone(pair.engine, pair.pd, 4096);
  const std::uint32_t stale = gone.key();
  gone.drop();
  const auto near = [](Pair& p) { return p.near(0, 8); };
  // Selected by index: the test case runs once for each, with other local variables each time.
  const std::vector<Post> posts = {
      Post([=](Pair& p) {
        return p.a.write({0, 0x4711}, near(p));
      }),
      Post([=](Pair& p) {
        return p.a.write({0, stale}, near(p));
      }),
      Post([&, near](Pair& p) {
        return p.a.write({foreign.address(), foreign.key()}, near(p));
      }),
      Post([&, near](Pair& p) {
        return p.a.write({local.address(), local.key()}, near(p));
      }),
      Post([&, near](Pair& p) {
        return p.a.read({local.address(), local.key()}, near(p));
      }),
      Post([&, near](Pair& p) {
        return p.a.fetch_add({local.address(), local.key()}, near(p), 1);
      }),
      Post([=](Pair& p) { return p.a.write(p.far(Pair::kBytes - 7), near(p)); }),
      Post([=](Pair& p) { return p.a.write(p.far(Pair::kBytes), near(p)); }),
      Post([=](Pair& p) { return p.a.read(p.far(~0ull - 3), near(p)); }),
      Post([](Pair& p) { return p.a.write(p.far(8192), p.near(0, Pair::kBytes)); })};
  const Post post = posts[GENERATE(range(std::size_t{0}, std::size_t{10}))];
  expect_error(pair, kAccess, post, QpState::kError);
  CHECK(pair.engine.violations().empty());
  // No part of a message that does not fit is written.
  CHECK(std::all_of(pair.target.data() + 8192, pair.target.data() + Pair::kBytes,
                    [](std::uint8_t byte) { return byte == 0; }));
}

TEST_CASE("a_queue_pair_without_the_right_refuses") {
  soft::Engine engine(soft::EngineOptions{});
  const std::uint32_t pd = engine.create_pd();
  Memory memory(engine, pd, 4096);
  const int what = GENERATE(0, 1, 2);
  Queue a(engine, pd), b(engine, pd);
  engine.modify_to_init(b.qpn(), {what != 0, what != 1, what != 2});
  b.finish_connect(a.qpn());
  a.connect(b.qpn());
  const Queue::Far far = {memory.address(), memory.key()};
  const Queue::Near near = {memory.address(64), 8, memory.key()};
  const std::uint16_t index = what == 0   ? a.write(far, near)
                              : what == 1 ? a.read(far, near)
                                          : a.fetch_add(far, near, 1);
  CHECK(a.ring_and_wait(index).syndrome == kAccess);
}

TEST_CASE("remote_invalid_requests") {
  Pair pair({}, kOrdinary);
  SECTION("an unaligned atomic") {
    expect_error(
        pair, kBadRequest, [](Pair& p) { return p.a.fetch_add(p.far(4), p.near(0, 8), 1); },
        QpState::kError);
  }
  SECTION("an atomic that is aligned by its key's addresses alone") {
    const std::uint32_t odd = pair.engine.create_region(
        {.pd = pair.pd, .address = pair.target.data() + 4, .bytes = 64, .iova = 0, .access = 15});
    expect_error(
        pair, kBadRequest,
        [&](Pair& p) {
          return p.a.fetch_add({8, odd}, p.near(0, 8), 1);
        },
        QpState::kError);
    pair.engine.destroy_region(odd);
  }
  SECTION("an unaligned atomic of 4 bytes") {
    Bytes operands;
    for (int i = 0; i < 4; ++i) append32(operands, 0);
    expect_error(
        pair, kBadRequest,
        [&](Pair& p) { return p.a.atomic(0x15, 8, p.far(2), p.near(0, 4), operands); },
        QpState::kError);
  }
}

TEST_CASE("a_responder_has_the_resources_for_reads_and_atomics_that_it_reports") {
  const bool reads = GENERATE(true, false);
  const std::uint32_t more = GENERATE(0u, 1u);
  constexpr std::uint32_t kLog = 1;
  Pair pair({}, {.log_cq = 4, .collapsed = false}, {.log_responder_reads = kLog},
            {.log_initiator_reads = 4});
  const std::uint32_t count = (1u << kLog) + more;  // all arrive before the first is answered
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint8_t flags = i + 1 == count ? 8 : 0;
    if (reads) pair.a.read(pair.far(0), pair.near(0, 8), flags);
    if (!reads) pair.a.fetch_add(pair.far(0), pair.near(0, 8), 1, flags);
  }
  pair.a.ring();
  CHECK(unsigned{pair.a.wait_next().syndrome} == (more == 0 ? 0u : unsigned{kBadRequest}));
}

TEST_CASE("retries_are_exceeded") {
  soft::Engine engine(soft::EngineOptions{});
  const std::uint32_t pd = engine.create_pd();
  Memory memory(engine, pd, 4096);
  Queue a(engine, pd);
  auto b = std::make_unique<Queue>(engine, pd);
  soft::QpRtr rtr;
  std::uint32_t remote = b->qpn();
  SECTION("the queue pair is gone") { b.reset(); }
  SECTION("the queue pair never was") { remote = 0x3ffff; }
  SECTION("the node never was") { remote = 5 << 18 | 0x40; }
  SECTION("the LID is another one") {
    b->connect(a.qpn());
    rtr.route.lid = 99;
  }
  SECTION("the queue pair has failed") {
    b->connect(a.qpn());
    engine.modify_to_error(b->qpn());
  }
  SECTION("the queue pair is connected to another one") { b->connect(b->qpn()); }
  a.connect(remote, rtr);
  a.write({memory.address(), memory.key()}, {memory.address(), 8, memory.key()}, 0);
  a.write({memory.address(), memory.key()}, {memory.address(), 8, memory.key()});
  a.ring();
  CHECK(eventually([&] { return engine.state(a.qpn()) == QpState::kError; }));
  CHECK(engine.violations().empty());
}

TEST_CASE("modify_to_error_flushes_queued_entries") {
  soft::Engine engine(soft::EngineOptions{});
  const std::uint32_t pd = engine.create_pd();
  Queue a(engine, pd, kOrdinary), b(engine, pd);
  Memory memory(engine, pd, 4096);
  engine.modify_to_init(b.qpn(), {});           // so that a's requests stay pending
  a.connect(b.qpn(), {}, {.ack_timeout = 20});  // 134 ms, 8 times
  for (int i = 0; i < 5; ++i) {
    a.write({memory.address(), memory.key()}, {memory.address(), 8, memory.key()}, 0);
  }
  a.ring();
  CHECK(eventually([&] { return engine.counters().retries > 0; }));
  engine.modify_to_error(a.qpn());
  for (std::uint16_t i = 0; i < 5; ++i) {
    const Cqe cqe = a.wait_next();
    CHECK(cqe.syndrome == kFlush);
    CHECK(cqe.counter == i);
    CHECK(cqe.wqe_opcode == 0x08);
  }
}

TEST_CASE("a_deregistered_region_fails_pending_operations") {
  Pair pair({.rules = "op=write:wqe=1:delay=1s"});
  pair.a.write(pair.far(0), pair.near(0, 8));
  const std::uint16_t index = pair.a.write(pair.far(0), pair.near(0, 8));
  pair.a.ring();
  CHECK(eventually([&] { return pair.engine.counters().cqes == 1; }));
  SECTION("at the source") {
    pair.source.drop();
    CHECK(pair.a.wait(index).syndrome == kProtection);
  }
  SECTION("at the target") {
    pair.target.drop();
    CHECK(pair.a.wait(index).syndrome == kAccess);
  }
}

TEST_CASE("rules_fail_drop_and_delay") {
  SECTION("a syndrome at the responder") {
    Pair pair({.rules = "qp=#0:wqe=1:op=write:syndrome=0x14"}, kOrdinary);
    expect_error(
        pair, kRemoteOperation, [](Pair& p) { return p.a.write(p.far(0), p.near(0, 8)); },
        QpState::kError);
  }
  SECTION("a syndrome of the requester") {
    Pair pair({.rules = "wqe=1:syndrome=0x22"}, kOrdinary);
    expect_error(pair, 0x22, [](Pair& p) { return p.a.nop(); });
    CHECK(pair.engine.violations().empty());
  }
  SECTION("lost for good") {
    Pair pair({.rules = "op=write:drop"}, kOrdinary);
    expect_error(pair, kRetry, [](Pair& p) { return p.a.write(p.far(0), p.near(0, 8)); });
  }
  SECTION("what does not go anywhere is not lost") {
    Pair pair({.rules = "drop"});
    CHECK_FALSE(pair.a.ring_and_wait(pair.a.nop()).error());
    CHECK(pair.engine.counters().retries == 0);
  }
  SECTION("lost twice") {
    Pair pair({.rules = "op=fadd:drop:times=2"});
    CHECK_FALSE(pair.a.ring_and_wait(pair.a.fetch_add(pair.far(0), pair.near(0, 8), 1)).error());
    CHECK(pair.engine.counters().retries == 2);
    CHECK(*pair.target.as<std::uint64_t>() == 1);
  }
  SECTION("each once, where there is one retry from one answer to the next") {
    const bool full = GENERATE(true, false);
    std::string rules;
    for (const char* number : {"0", "1", "2"})
      rules += std::string(rules.empty() ? "" : ";") + "qp=#0:wqe=" + number +
               ":times=1:" + (full ? "rnr" : "drop");
    Pair pair({.rules = rules}, {}, {.min_rnr_timer = 1}, {.retries = 1, .rnr_retries = 1});
    for (int i = 0; i < 3; ++i)
      CHECK_FALSE(pair.a.ring_and_wait(pair.a.write(pair.far(0), pair.near(0, 8))).error());
    CHECK(pair.engine.counters().retries == 3);
  }
  SECTION("late") {
    Pair pair({.rules = "qp=0x40:op=nop:delay=30ms"});
    const std::int64_t begin = clock_ns();
    CHECK_FALSE(pair.a.ring_and_wait(pair.a.nop()).error());
    CHECK(clock_ns() - begin >= 30'000'000);
  }
}

TEST_CASE("rules_break_keys_queues_and_ports") {
  const auto bad_write = [](Pair& p) { return p.a.write(p.far(0), p.near(0, 8)); };
  SECTION("a key that the target does not know") {
    Pair pair({.rules = "op=write:key=remote"}, kOrdinary);
    expect_error(pair, kAccess, bad_write, QpState::kError);
    CHECK(pair.engine.violations().empty());
  }
  SECTION("the queue pair goes to error") {
    Pair pair({.rules = "wqe=1:queue=error"}, kOrdinary);
    bad_write(pair);
    pair.a.ring();
    CHECK_FALSE(pair.a.wait_next().error());
    for (int i = 0; i < 2; ++i) bad_write(pair);
    pair.a.ring();
    for (int i = 0; i < 2; ++i) CHECK(pair.a.wait_next().syndrome == kFlush);
    CHECK(pair.engine.state(pair.a.qpn()) == QpState::kError);
    CHECK(pair.engine.state(pair.b.qpn()) == QpState::kRts);
  }
  SECTION("the other end goes to error") {
    Pair pair({.rules = "op=write:peer=error"}, kOrdinary);
    expect_error(pair, kRetry, bad_write, QpState::kError);
  }
  SECTION("the queue pair is reset") {
    Pair pair({.rules = "op=write:queue=reset"}, kOrdinary);
    bad_write(pair);
    pair.a.ring();
    CHECK(eventually([&] { return pair.engine.state(pair.a.qpn()) == QpState::kReset; }));
    CHECK_FALSE(pair.a.poll());
  }
  SECTION("the port goes down, in both directions") {
    Pair pair({.rules = "op=nop:port=down"});
    CHECK_FALSE(pair.a.ring_and_wait(pair.a.nop()).error());
    Queue& sender = GENERATE(true, false) ? pair.a : pair.b;
    const std::uint16_t index = sender.write({pair.target.address(), pair.target.key()},
                                             {pair.source.address(), 8, pair.source.key()});
    CHECK(sender.ring_and_wait(index).syndrome == kRetry);
  }
}

}  // namespace
}  // namespace gshmem::test

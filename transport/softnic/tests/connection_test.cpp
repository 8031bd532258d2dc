// Tests what the two ends of a connection must agree on, and how long a requester retries: packet
// sequence numbers, path MTU, atomic mode, retries.
#include "transport/softnic/tests/softnic.h"

#include "transport/softnic/queue_pair.h"

#include <catch2/catch.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>

namespace gshmem::test {
namespace {

using soft::AtomicMode;
using soft::QpRtr;
using soft::QpRts;
using soft::QpState;

/// A requester `a` and a responder `b`, each with its own attributes.
struct Ends {
  explicit Ends(const soft::EngineOptions& options = {}, const QueueOptions& queue = {})
      : engine(options),
        pd(engine.create_pd()),
        source(engine, pd, kBytes, 15, 0),
        target(engine, pd, kBytes, 15, 0),
        a(engine, pd, queue),
        b(engine, pd, queue) {}
  void connect(const QpRtr& rtr_a, const QpRts& rts_a, const QpRtr& rtr_b,
               const QpRts& rts_b = {}) {
    a.connect(b.qpn(), rtr_a, rts_a);
    b.connect(a.qpn(), rtr_b, rts_b);
  }
  Cqe write(std::uint32_t bytes, std::uint64_t at = 0) {
    return a.ring_and_wait(
        a.write({target.address(at), target.key()}, {source.address(at), bytes, source.key()}));
  }
  Cqe read(std::uint32_t bytes) {
    return a.ring_and_wait(
        a.read({target.address(), target.key()}, {source.address(), bytes, source.key()}));
  }
  Cqe fetch_add(std::uint64_t add = 1) {
    return a.ring_and_wait(
        a.fetch_add({target.address(), target.key()}, {source.address(), 8, source.key()}, add));
  }
  Cqe masked(std::uint8_t opcode, std::uint32_t bytes) {
    const Bytes operands(opcode == 0x14 ? 4 * bytes : 16);
    return a.ring_and_wait(a.atomic(opcode, bytes == 4 ? 8 : 9, {target.address(), target.key()},
                                    {source.address(), bytes, source.key()}, operands));
  }

  static constexpr std::uint64_t kBytes = 1 << 20;
  soft::Engine engine;
  std::uint32_t pd;
  Memory source, target;
  Queue a, b;
};

TEST_CASE("a_first_packet_that_is_not_the_expected_one_exceeds_the_retries") {
  constexpr std::uint32_t kExpected = 0x123456;
  const std::uint32_t sent = GENERATE(kExpected + 1, kExpected - 1, kExpected ^ 0x800000, 0u);
  const int what = GENERATE(0, 1, 2);
  INFO("sent " << sent << ", operation " << what);
  Ends ends;
  ends.connect({}, {.send_psn = sent}, {.receive_psn = kExpected});
  std::memset(ends.source.data(), 7, 64);
  const Cqe cqe = what == 0 ? ends.write(8) : what == 1 ? ends.read(8) : ends.fetch_add();
  CHECK(unsigned{cqe.syndrome} == unsigned{kRetry});
  CHECK(unsigned{cqe.vendor} == 0x81);
  CHECK(*ends.target.as<std::uint64_t>() == 0);
  CHECK(*ends.source.as<std::uint8_t>() == 7);
  CHECK(ends.engine.state(ends.b.qpn()) == QpState::kRts);
  CHECK(ends.engine.violations().empty());
}

TEST_CASE("sequence_numbers_wrap_around") {
  Ends ends;
  const std::uint32_t begin = GENERATE(0xffffffu, 0xfffff0u);
  ends.connect({.mtu = 256}, {.send_psn = begin}, {.mtu = 256, .receive_psn = begin});
  std::iota(ends.source.data(), ends.source.data() + Ends::kBytes, std::uint8_t{3});
  for (int round = 0; round < 8; ++round) {
    CHECK_FALSE(ends.write(1500, 4096).error());
    CHECK_FALSE(ends.write(0).error());
    CHECK_FALSE(ends.read(1500).error());
    CHECK_FALSE(ends.fetch_add().error());
  }
  CHECK(std::memcmp(ends.target.data() + 4096, ends.source.data() + 4096, 1500) == 0);
}

TEST_CASE("lost_answers_are_sent_again_and_nothing_is_executed_twice") {
  Ends ends({.adversary = "drop_reply=1"});
  ends.connect({.mtu = 256}, {.send_psn = 0xfffff0}, {.mtu = 256, .receive_psn = 0xfffff0});
  std::iota(ends.source.data(), ends.source.data() + Ends::kBytes, std::uint8_t{3});
  for (std::uint64_t round = 0; round < 40; ++round) {
    CHECK_FALSE(ends.fetch_add().error());
    CHECK(*ends.source.as<std::uint64_t>() == round);
    CHECK_FALSE(ends.write(1500, 4096 + round).error());
    CHECK(std::memcmp(ends.target.data() + 4096 + round, ends.source.data() + 4096 + round, 1500) ==
          0);
  }
  CHECK_FALSE(ends.read(3000).error());
  CHECK_FALSE(ends.write(0).error());
  CHECK(*ends.target.as<std::uint64_t>() == 40);
  CHECK(ends.engine.counters().retries == 82);
  CHECK(ends.engine.violations().empty());
}

TEST_CASE("both_ends_have_one_path_mtu") {
  Ends ends;
  SECTION("a packet above that of the receiver") {
    ends.connect({.mtu = 4096}, {}, {.mtu = 256});
    CHECK_FALSE(ends.write(256).error());  // fits
    CHECK(unsigned{ends.write(257).syndrome} == unsigned{kBadRequest});
    CHECK(ends.engine.state(ends.b.qpn()) == QpState::kError);
  }
  SECTION("packets below that of the receiver") {
    ends.connect({.mtu = 256}, {}, {.mtu = 4096});
    CHECK_FALSE(ends.write(256).error());
    CHECK(unsigned{ends.write(257).syndrome} == unsigned{kBadRequest});
  }
  SECTION("answers to reads are below that of the reader") {
    ends.connect({.mtu = 4096}, {}, {.mtu = 256});
    CHECK_FALSE(ends.read(256).error());
    CHECK(unsigned{ends.read(257).syndrome} == unsigned{kBadResponse});
    CHECK(ends.engine.state(ends.a.qpn()) == QpState::kError);
  }
  SECTION("answers to reads are above that of the reader") {
    ends.connect({.mtu = 256}, {}, {.mtu = 4096});
    CHECK_FALSE(ends.read(256).error());
    CHECK(unsigned{ends.read(257).syndrome} == unsigned{kBadResponse});
  }
}

TEST_CASE("the_atomic_mode_says_which_atomics_are_executed") {
  constexpr std::uint8_t kMaskedSwap = 0x14, kMaskedAdd = 0x15;
  struct Case {
    AtomicMode mode;
    bool plain, masked8, masked4;
  };
  const Case one = GENERATE(Case{AtomicMode::kNone, false, false, false},
                            Case{AtomicMode::kInfiniBand, true, false, false},
                            Case{AtomicMode::kOnly8, true, true, false},
                            Case{AtomicMode::kUpTo8, true, true, true});
  const int what = GENERATE(0, 1, 2, 3, 4);
  INFO("mode " << static_cast<int>(one.mode) << ", operation " << what);
  Ends ends;
  ends.connect({}, {}, {.access = soft::QpInit{true, true, true, one.mode}});
  const Cqe cqe = what == 0   ? ends.fetch_add()
                  : what == 1 ? ends.masked(kMaskedSwap, 8)
                  : what == 2 ? ends.masked(kMaskedAdd, 8)
                  : what == 3 ? ends.masked(kMaskedSwap, 4)
                              : ends.masked(kMaskedAdd, 4);
  const bool good = what == 0 ? one.plain : what <= 2 ? one.masked8 : one.masked4;
  CHECK(unsigned{cqe.syndrome} == (good ? 0u : unsigned{kBadRequest}));
}

// Port 0 and port 1 of a host, port 0 as another process of the host sees it, and an InfiniBand
// port.
TEST_CASE("a_port_accepts_packets_for_its_addresses_from_the_peer_of_the_queue_pair") {
  constexpr soft::Profile kRoce{.link = soft::Profile::Link::kEthernet};
  const int fd = soft::Engine::make_fabric();
  soft::Engine port({.profile = kRoce}), other({.profile = kRoce, .device = 1}),
      sibling({.profile = kRoce}), infiniband(soft::EngineOptions{});
  for (soft::Engine* one : {&port, &other, &sibling, &infiniband}) one->join_fabric(fd);
  ::close(fd);
  std::uint32_t pd = 0;
  for (soft::Engine* one : {&port, &other, &sibling, &infiniband}) pd = one->create_pd();
  const soft::DeviceAttributes near = port.device(), far = other.device(), ib = infiniband.device();
  CHECK(near.mac != far.mac);
  CHECK(near.mac == sibling.device().mac);
  using Change = std::function<void(soft::Route&)>;
  const Change nothing = [](soft::Route&) {};
  // Both ends use GID 3 (RoCE v2); `at` changes the route of `from`, `back` that of `to`.
  struct Way {
    const char* what;
    soft::Engine *from, *to;
    Change at, back = [](soft::Route&) {};
    bool arrives = false;
  };
  const Way ways[] = {
      {"to the other port", &port, &other, nothing, nothing, true},
      {"to the same port of another process", &port, &sibling, nothing, nothing, true},
      {"as RoCE v1 at both ends", &port, &other,
       [&](soft::Route& r) { r.gid_index = 0, r.gid = far.gids[0].bytes, r.hop_limit = 0; },
       [&](soft::Route& r) { r.gid_index = 0, r.gid = near.gids[0].bytes, r.udp_source = 0; },
       true},
      {"MAC of another port", &port, &other, [&](soft::Route& r) { r.mac = near.mac; }},
      {"no MAC", &port, &other, [](soft::Route& r) { r.mac = 0; }},
      {"answers to another MAC", &port, &other, nothing, [&](soft::Route& r) { r.mac = far.mac; }},
      {"GID of no port", &port, &other, [](soft::Route& r) { r.gid[15] ^= 0x40; }},
      {"GID of another port", &port, &other, [&](soft::Route& r) { r.gid = near.gids[3].bytes; }},
      {"another GID of that port", &port, &other,
       [&](soft::Route& r) { r.gid = far.gids[1].bytes; }},
      {"from another GID", &port, &other, [](soft::Route& r) { r.gid_index = 1; }},
      {"a GID of RoCE v1 at one end", &port, &other, [](soft::Route& r) { r.gid_index = 2; }},
      {"answers from another GID", &port, &other, nothing, [](soft::Route& r) { r.gid_index = 1; }},
      {"hop limit 0", &port, &other, [](soft::Route& r) { r.hop_limit = 0; }},
      {"answers with hop limit 0", &port, &other, nothing, [](soft::Route& r) { r.hop_limit = 0; }},
      {"UDP source port 0", &port, &other, [](soft::Route& r) { r.udp_source = 0; }},
      {"to InfiniBand", &port, &infiniband, [&](soft::Route& r) { r.lid = ib.lid; }}};
  for (const Way& way : ways) {
    INFO(way.what);
    Queue a(*way.from, pd), b(*way.to, pd);
    Memory source(*way.from, pd, 64), target(*way.to, pd, 64);
    const auto route = [](const soft::Engine& to, const Change& change) {
      const soft::DeviceAttributes device = to.device();
      soft::Route made = route_to(device, device.mac != 0 ? 3 : 0);
      change(made);
      return made;
    };
    a.connect(b.qpn(), {.route = route(*way.to, way.at)}, {.ack_timeout = 1});
    b.connect(a.qpn(),
              {.route = way.to == &infiniband ? soft::Route{} : route(*way.from, way.back)});
    const Cqe cqe = a.ring_and_wait(
        a.write({target.address(), target.key()}, {source.address(), 8, source.key()}));
    CHECK(unsigned{cqe.syndrome} == (way.arrives ? 0u : unsigned{kRetry}));
  }
}

// There is a GRH only if both ends have GIDs.
TEST_CASE("infiniband_routes_by_lid_and_by_gid_if_there_is_one") {
  const int which = GENERATE(0, 1, 2, 3, 4);
  INFO("case " << which);
  Ends ends;
  const soft::DeviceAttributes device = ends.engine.device();
  soft::Route route = route_to(device), back = route;
  route.global = which >= 1, back.global = which >= 1 && which != 2;
  if (which == 3) route.gid = {};
  if (which == 4) route.lid ^= 1;
  ends.connect({.route = route}, {.ack_timeout = 1}, {.route = back});
  CHECK(unsigned{ends.write(8).syndrome} == (which < 2 ? 0u : unsigned{kRetry}));
}

// Nothing orders these reads after the writes of an unreliable connection, so TSan must not see
// them.
__attribute__((no_sanitize("thread"))) bool are_same(const std::uint8_t* a, const std::uint8_t* b,
                                                     std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

TEST_CASE("an_unreliable_connection_reports_no_loss") {
  Ends ends({.rules = "qp=#0:wqe=1:drop"}, {.service = soft::Service::kUnreliable});
  ends.connect({.mtu = 256}, {}, {.mtu = 256});
  std::iota(ends.source.data(), ends.source.data() + Ends::kBytes, std::uint8_t{3});
  const auto is_there = [&](std::uint64_t at) {
    return are_same(ends.target.data() + at, ends.source.data() + at, 1500);
  };
  const auto arrives = [&](std::uint64_t at) { return eventually([&] { return is_there(at); }); };
  CHECK_FALSE(ends.write(1500).error());
  CHECK(arrives(0));
  CHECK_FALSE(ends.write(1500, 4096).error());  // lost
  CHECK_FALSE(ends.write(1500, 8192).error());
  CHECK(arrives(8192));
  CHECK(int{ends.target.data()[4100]} == 0);
  // The responder does not know this key.
  const Cqe cqe =
      ends.a.ring_and_wait(ends.a.write({ends.target.address(), ends.target.key() ^ 1},
                                        {ends.source.address(64), 8, ends.source.key()}));
  CHECK_FALSE(cqe.error());
  CHECK_FALSE(ends.write(1500, 16384).error());
  CHECK(arrives(16384));
  CHECK(is_there(0));
  CHECK(ends.engine.state(ends.b.qpn()) == QpState::kRts);
  CHECK(ends.engine.violations().empty());
  CHECK(unsigned{ends.read(8).syndrome} == 0x02u);
}

TEST_CASE("retries_have_the_number_and_interval_of_the_queue_pair") {
  const std::uint32_t retries = GENERATE(0u, 1u, 3u);
  Ends ends({.rules = "qp=#0:drop"});
  ends.connect({}, {.retries = retries, .ack_timeout = 17}, {});  // 537 ms / 32 = 16.8 ms
  const std::int64_t begin = clock_ns();
  CHECK(unsigned{ends.write(8).syndrome} == unsigned{kRetry});
  CHECK(clock_ns() - begin >= retries * 16'000'000);
  CHECK(ends.engine.counters().retries == retries + 1);
}

}  // namespace
}  // namespace gshmem::test

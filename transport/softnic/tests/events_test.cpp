// Tests asynchronous events of the soft NIC's engine: what a device reports besides completions.
#include "transport/softnic/tests/softnic.h"

#include <catch2/catch.hpp>

#include <mutex>
#include <vector>

namespace gshmem::test {
namespace {

using soft::QpState;

TEST_CASE("the_device_reports_events_without_a_completion") {
  using Kind = soft::DeviceEvent::Kind;
  Pair pair;
  std::mutex mutex;
  std::vector<soft::DeviceEvent> events;
  const int listener = pair.engine.listen([&](const soft::DeviceEvent& event) {
    const std::lock_guard lock(mutex);
    events.push_back(event);
  });
  const auto told = [&](Kind kind, std::uint32_t number) {
    return eventually([&] {
      const std::lock_guard lock(mutex);
      return events.size() == 1 && events[0].kind == kind && events[0].number == number;
    });
  };
  SECTION("a request that was refused, at the other end") {
    CHECK(pair.a.ring_and_wait(pair.a.write({0, 0x4711}, pair.near(0, 8))).error());
    CHECK(told(Kind::kAccessError, pair.b.qpn()));
  }
  SECTION("a request that is not valid, at the other end") {
    CHECK(pair.a.ring_and_wait(pair.a.fetch_add(pair.far(4), pair.near(0, 8), 1)).error());
    CHECK(told(Kind::kInvalidRequest, pair.b.qpn()));
  }
  SECTION("a request that this end could not execute") {
    pair.engine.add_rules("op=write:syndrome=0x14");
    CHECK(pair.a.ring_and_wait(pair.a.write(pair.far(0), pair.near(0, 8))).error());
    CHECK(told(Kind::kQueueFatal, pair.b.qpn()));
  }
  SECTION("a completion queue that breaks, which completes nothing any more") {
    pair.engine.add_rules("op=nop:cq=overrun");
    pair.a.nop();
    pair.a.ring();
    CHECK(eventually([&] { return pair.engine.state(pair.a.qpn()) == QpState::kError; }));
    CHECK(told(Kind::kCqError, pair.a.cqn()));
    CHECK_FALSE(pair.a.poll());
  }
  SECTION("a port that goes down") {
    CHECK(pair.engine.device().port_up);
    pair.engine.add_rules("op=nop:port=down");
    CHECK_FALSE(pair.a.ring_and_wait(pair.a.nop()).error());
    CHECK(told(Kind::kPortDown, 0));
    CHECK_FALSE(pair.engine.device().port_up);
  }
  SECTION("a completion queue that has no room") {
    Queue full(pair.engine, pair.pd, {.collapsed = false, .ignore_overrun = false});
    full.connect(full.qpn());
    for (int i = 0; i < 2; ++i) full.nop();
    full.ring();
    CHECK(told(Kind::kCqError, full.cqn()));
  }
  SECTION("a device that is removed, where nothing goes on") {
    pair.engine.add_rules("op=nop:device=gone");
    pair.a.nop();
    pair.a.ring();
    CHECK(told(Kind::kDeviceGone, 0));
    CHECK(pair.engine.gone());
    CHECK_FALSE(pair.a.peek());
    // No traffic leaves it or reaches it.
    pair.b.write(pair.far(0), pair.near(0, 8));
    pair.b.ring();
    CHECK_THROWS_AS(pair.engine.device(), soft::EngineError);
    CHECK_THROWS_AS(pair.engine.create_pd(), soft::EngineError);
    CHECK_THROWS_AS(pair.engine.modify_to_error(pair.a.qpn()), soft::EngineError);
    CHECK_FALSE(eventually([&] { return pair.b.peek().has_value(); }, 20'000'000));
  }
  pair.engine.ignore_events(listener);
}

TEST_CASE("a_port_that_flaps_reports_it_and_loses_nothing") {
  using Kind = soft::DeviceEvent::Kind;
  Pair pair({.rules = "wqe=41:times=1:port=flap:4ms"}, {.log_entries = 8});
  std::mutex mutex;
  std::vector<Kind> events;
  std::int64_t up_ns = 0;
  const int listener = pair.engine.listen([&](const soft::DeviceEvent& event) {
    const std::lock_guard lock(mutex);
    events.push_back(event.kind);
    if (event.kind == Kind::kPortUp) up_ns = clock_ns();
  });
  // Operations that are pending when it goes down are sent again, and atomics count once.
  std::uint16_t last = 0;
  for (std::uint32_t i = 0; i < 100; ++i) {
    pair.source.as<std::uint64_t>(1024)[i] = i;
    pair.a.write(pair.far(1024 + 8 * i), pair.near(1024 + 8 * i, 8), 0);
    last = pair.a.fetch_add(pair.far(0), pair.near(8 * i % 1024, 8), 1, i == 99 ? 8 : 0);
  }
  const std::int64_t begin = clock_ns();
  const Cqe cqe = pair.a.ring_and_wait(last);
  CHECK_FALSE(cqe.error());
  CHECK(*pair.target.as<std::uint64_t>(0) == 100);
  for (std::uint32_t i = 0; i < 100; ++i) REQUIRE(pair.target.as<std::uint64_t>(1024)[i] == i);
  pair.engine.ignore_events(listener);
  CHECK(events == std::vector<Kind>{Kind::kPortDown, Kind::kPortUp});
  CHECK(up_ns - begin >= 4'000'000);
  CHECK(pair.engine.device().port_up);
  CHECK(pair.engine.counters().retries > 0);
}

}  // namespace
}  // namespace gshmem::test

// Asynchronous events of the soft NIC's engine: what a device tells beside completions.
#include "tests/nic/softnic.h"

#include <catch2/catch.hpp>

#include <mutex>
#include <vector>

namespace gshmem::test {
namespace {

using soft::QpState;

TEST_CASE("the_device_tells_of_what_no_completion_carries") {
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
  SECTION("a completion queue that breaks, which completes nothing any more") {
    pair.engine.add_rules("op=nop:cq=overrun");
    pair.a.nop();
    pair.a.ring();
    CHECK(eventually([&] { return pair.engine.state(pair.a.qpn()) == QpState::kError; }));
    CHECK(told(Kind::kCqError, pair.a.cqn()));
    CHECK_FALSE(pair.a.poll());
  }
  SECTION("a port that goes down") {
    pair.engine.add_rules("op=nop:port=down");
    CHECK_FALSE(pair.a.ring_and_wait(pair.a.nop()).error());
    CHECK(told(Kind::kPortDown, 0));
  }
  pair.engine.ignore_events(listener);
}

}  // namespace
}  // namespace gshmem::test

// The soft NIC's control path: what it refuses, with which command status, and options that are
// bad.
#include "tests/nic/softnic.h"
#include "transport/softnic/profile.h"

#include <catch2/catch.hpp>

namespace gshmem::test {
namespace {

using Catch::Contains;
using soft::EngineError;
using soft::QpState;

TEST_CASE("the_control_path_refuses_with_the_command_status") {
  soft::Engine engine(soft::EngineOptions{});
  const std::uint32_t pd = engine.create_pd();
  alignas(64) static std::uint8_t memory[8192];
  CHECK_THAT(refusal([&] { (void)engine.create_region({.pd = 9, .address = memory, .bytes = 8}); }),
             Contains("5: "));
  CHECK_THAT(refusal([&] {
               (void)engine.create_region(
                   {.pd = pd, .address = memory, .bytes = 8, .access = soft::kRemoteWrite});
             }),
             Contains("3: ") && Contains("local write"));
  CHECK_THAT(refusal([&] { engine.destroy_region(0x123); }), Contains("5: "));
  CHECK_THAT(refusal([&] { engine.destroy_pd(77); }), Contains("5: "));
  CHECK_THAT(refusal([&] { engine.destroy_qp(77); }), Contains("5: "));
  CHECK_THAT(refusal([&] { (void)engine.create_cq({.buffer = memory + 4}); }), Contains("3: "));
  CHECK_THAT(refusal([&] { (void)engine.create_cq({.buffer = memory, .log_entries = 30}); }),
             Contains("3: "));

  Queue queue(engine, pd);
  CHECK_THAT(refusal([&] { engine.destroy_pd(pd); }), Contains("9: ") && Contains("in use"));
  CHECK_THAT(refusal([&] { engine.modify_to_rtr(queue.qpn(), {}); }), Contains("16: "));
  CHECK_THAT(refusal([&] { engine.modify_to_rts(queue.qpn(), {}); }), Contains("16: "));
  CHECK_THAT(refusal([&] { engine.modify_to_error(queue.qpn()); }), Contains("16: "));
  engine.modify_to_init(queue.qpn(), {});
  CHECK_THAT(refusal([&] { engine.modify_to_rtr(queue.qpn(), {.mtu = 1000}); }), Contains("3: "));
  CHECK_THAT(refusal([&] { engine.modify_to_rtr(queue.qpn(), {.remote_qpn = 0xffffff}); }),
             Contains("3: "));
  CHECK(engine.state(queue.qpn()) == QpState::kInit);
  CHECK_THAT(refusal([&] {
               (void)engine.create_qp({.pd = pd,
                                       .send_queue = memory,
                                       .log_send_entries = 6,
                                       .record = memory + 4096,
                                       .send_cq = 99,
                                       .receive_cq = 99,
                                       .uar = 1});
             }),
             Contains("5: ") && Contains("completion queue"));
  CHECK_THAT(refusal([&] { engine.join_fabric(0); }), Contains("before the first queue pair"));
}

TEST_CASE("bad_options_are_refused_with_what_is_accepted") {
  const auto with = [](const soft::EngineOptions& options) {
    return refusal([&] { const soft::Engine engine(options); });
  };
  CHECK_THAT(with({.adversary = "maybe"}), Contains("\"maybe\"") && Contains("late_read"));
  CHECK_THAT(with({.adversary = "late_read=2"}), Contains("late_read=2"));
  CHECK_THAT(with({.adversary = "late_read="}), Contains("late_read="));
  CHECK(with({.adversary = "all, drop=0;late_read=0.5"}) == "none");
  CHECK_THAT(with({.rules = "qp=*"}), Contains("an action"));
  CHECK_THAT(with({.rules = "drop:delay=1us"}), Contains("one action"));
  CHECK_THAT(with({.rules = "qp=x:drop"}), Contains("qp=x"));
  CHECK_THAT(with({.rules = "op=recv:drop"}), Contains("masked") || Contains("mcas"));
  CHECK_THAT(with({.rules = "delay=1h"}), Contains("delay=1h"));
  CHECK_THAT(with({.rules = "syndrome=0"}), Contains("not 0"));
  CHECK_THAT(with({.rules = "syndrome=0x100"}), Contains("up to 255"));
  for (const char* bad : {"eth", "mtu=1000", "mtu=8192", "mtu=", "page=16k", "roce;ib,x"}) {
    CHECK_THROWS_AS(soft::parse_profiles(bad), EngineError);
  }
  CHECK(soft::parse_profiles("").size() == 1);
  CHECK(soft::parse_profiles("roce,mtu=512;page=64k").at(1).page_bytes == 65536);
  CHECK_THAT(with({.rules = "wqe=1-:drop"}), Contains("wqe=1-"));
  CHECK_THAT(with({.rules = "often:drop"}), Contains("times="));
  CHECK_THAT(with({.rules = "queue=init"}), Contains("queue=error"));
  CHECK_THAT(with({.rules = "port=down:cq=overrun"}), Contains("one action"));
  for (const char* bad : {"port=flap", "port=flap:0ms", "port=flap:2h", "drop:20ms", "port=up"}) {
    CHECK_THAT(with({.rules = bad}), Contains("port=flap:n"));
  }
  CHECK(with({.rules = "wqe=3:port=flap:20ms;device=gone"}) == "none");
  CHECK(with({.rules = "qp=*:wqe=17-0x20:op=write:syndrome=0x13; drop:times=1"}) == "none");
}

}  // namespace
}  // namespace gshmem::test

// The soft NIC's control path: what it refuses, with which command status, and options that are
// bad.
#include "transport/softnic/tests/softnic.h"
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

}  // namespace
}  // namespace gshmem::test

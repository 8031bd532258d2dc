// Tests the refusals of the soft NIC's control path, one row per rule, and which entries its rules
// match.
#include "transport/softnic/tests/softnic.h"
#include "transport/softnic/rules.h"

#include <catch2/catch.hpp>

#include <functional>

namespace gshmem::test {
namespace {

using soft::CqAttributes;
using soft::QpAttributes;
using soft::QpRtr;
using soft::QpRts;
using soft::ReceiveAttributes;

/// An engine and one of each object.
struct Objects {
  soft::Engine engine{soft::EngineOptions{}};
  std::uint32_t pd = engine.create_pd();
  alignas(4096) std::uint8_t memory[16384] = {};
  void* page = nullptr;
  std::uint32_t uar = engine.create_uar(&page);
  CqAttributes cq{.buffer = memory, .record = memory + 64, .uar = uar};
  std::uint32_t cqn = engine.create_cq(cq);
  ReceiveAttributes receives{.pd = pd, .entries = memory + 4096, .record = memory + 72};
  QpAttributes qp{.pd = pd,
                  .send_queue = memory + 8192,
                  .record = memory + 80,
                  .send_cq = cqn,
                  .receive_cq = cqn,
                  .uar = uar};
};

}  // namespace

TEST_CASE("each_transition_requires_its_state_and_the_bounds_of_its_fields") {
  Objects some;
  soft::Engine& engine = some.engine;
  const std::uint32_t qp = engine.create_qp(some.qp);
  enum State { kReset, kInit, kRtr, kRts, kError };
  const auto to = [&](int state) {
    engine.modify_to_reset(qp);
    if (state >= kInit) engine.modify_to_init(qp, {});
    if (state >= kRtr) engine.modify_to_rtr(qp, {});
    if (state >= kRts) engine.modify_to_rts(qp, {});
    if (state >= kError) engine.modify_to_error(qp);
  };
  const auto takes = [&](const std::function<void()>& call) { return refusal(call) == "none"; };
  for (int state = kReset; state <= kError; ++state) {
    INFO(state);
    to(state);
    CHECK(takes([&] { engine.modify_to_init(qp, {}); }) == (state <= kInit));
    to(state);
    CHECK(takes([&] { engine.modify_to_rtr(qp, {}); }) == (state == kInit));
    to(state);
    CHECK(takes([&] { engine.modify_to_rts(qp, {}); }) == (state == kRtr || state == kRts));
    to(state);
    CHECK(takes([&] { engine.modify_to_error(qp); }) == (state != kReset));
  }
  for (const auto& [wanted, good] : {std::pair{QpRtr{.mtu = 128}, false},
                                     {QpRtr{.mtu = 256}, true},
                                     {QpRtr{.mtu = 1000}, false},
                                     {QpRtr{.mtu = 4096}, true},
                                     {QpRtr{.mtu = 8192}, false},
                                     {QpRtr{.log_message_max = 31}, true},
                                     {QpRtr{.log_message_max = 32}, false},
                                     {QpRtr{.log_responder_reads = 7}, true},
                                     {QpRtr{.log_responder_reads = 8}, false},
                                     {QpRtr{.receive_psn = 0xffffff}, true},
                                     {QpRtr{.receive_psn = 0x1000000}, false}}) {
    to(kInit);
    CHECK(takes([&, wanted = wanted] { engine.modify_to_rtr(qp, wanted); }) == good);
  }
  for (const auto& [wanted, good] : {std::pair{QpRts{.retries = 7}, true},
                                     {QpRts{.retries = 8}, false},
                                     {QpRts{.ack_timeout = 31}, true},
                                     {QpRts{.ack_timeout = 32}, false},
                                     {QpRts{.send_psn = 0xffffff}, true},
                                     {QpRts{.send_psn = 0x1000000}, false}}) {
    to(kRtr);
    CHECK(takes([&, wanted = wanted] { engine.modify_to_rts(qp, wanted); }) == good);
  }
}

TEST_CASE("a_removed_device_creates_and_changes_nothing") {
  Pair pair;
  Objects some;  // only their attributes matter: their numbers belong to another engine
  soft::Engine& engine = pair.engine;
  engine.add_rules("op=nop:device=gone");
  pair.a.nop();
  pair.a.ring();
  REQUIRE(eventually([&] { return engine.gone(); }));
  void* page = nullptr;
  const std::uint32_t qp = pair.a.qpn();
  const std::string all[] = {
      refusal([&] { (void)engine.device(); }),
      refusal([&] { (void)engine.create_pd(); }),
      refusal([&] { (void)engine.create_uar(&page); }),
      refusal([&] { (void)engine.create_region({.pd = pair.pd, .address = &page, .bytes = 8}); }),
      refusal([&] { (void)engine.create_cq(some.cq); }),
      refusal([&] { (void)engine.create_receives(some.receives); }),
      refusal([&] { (void)engine.create_qp(some.qp); }),
      refusal([&] { engine.modify_to_init(qp, {}); }),
      refusal([&] { engine.modify_to_rtr(qp, {}); }),
      refusal([&] { engine.modify_to_rts(qp, {}); }),
      refusal([&] { engine.modify_to_error(qp); }),
      refusal([&] { engine.modify_to_reset(qp); })};
  for (const std::string& one : all) CHECK(one == all[0]);
  CHECK(all[0].substr(0, 3) == "1: ");
  pair.a.store_doorbell(1, 0x3fff0);
  pair.a.destroy_qp();
  CHECK(engine.violations().empty());  // it sees no doorbell
}

TEST_CASE("an_entry_uses_the_first_remaining_rule_that_matches_it") {
  using nic::WqeKind;
  soft::RuleSet rules(
      soft::parse_rules("qp=0x41:wqe=3-4:op=write:times=2:syndrome=1;"
                        "qp=#5:syndrome=2;wqe=9:syndrome=3"));
  const auto met = [&](std::uint32_t qpn, std::uint64_t ordinal, std::uint64_t wqe, WqeKind kind) {
    const soft::Rule* const rule = rules.match(qpn, ordinal, wqe, kind);
    return rule == nullptr ? 0 : rule->syndrome;
  };
  CHECK(met(0x41, 0, 2, WqeKind::kWrite) == 0);
  CHECK(met(0x41, 0, 5, WqeKind::kWrite) == 0);
  CHECK(met(0x42, 0, 3, WqeKind::kWrite) == 0);
  CHECK(met(0x41, 0, 3, WqeKind::kRead) == 0);
  CHECK(met(0x41, 0, 3, WqeKind::kWrite) == 1);
  CHECK(met(0x41, 5, 4, WqeKind::kWrite) == 1);
  CHECK(met(0x41, 5, 4, WqeKind::kWrite) == 2);  // the first one is used up
  CHECK(met(0x41, 4, 4, WqeKind::kWrite) == 0);
  CHECK(met(1, 1, 9, WqeKind::kNop) == 3);
  rules.add(soft::parse_rules("op=nop:syndrome=4"));
  CHECK(met(1, 1, 9, WqeKind::kNop) == 3);
  CHECK(met(1, 1, 8, WqeKind::kNop) == 4);
}

}  // namespace gshmem::test

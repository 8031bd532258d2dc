// Each refusal of the soft NIC's control path with its whole text, on both sides of every bound;
// each word that its options take, with all that comes of it.
#include "transport/softnic/tests/softnic.h"
#include "tests/sanitizers/sanitizers.h"
#include "transport/softnic/adversary.h"
#include "transport/softnic/profile.h"
#include "transport/softnic/rules.h"

#include "host/base/error.h"

#include <catch2/catch.hpp>

namespace gshmem::test {
namespace {

using soft::CqAttributes;
using soft::QpAttributes;
using soft::QpRtr;
using soft::QpRts;
using soft::ReceiveAttributes;
using soft::ReceiveOrder;

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

  template <class Attributes, class Change>
  std::string made(Attributes attributes, Change change) {
    change(attributes);
    return refusal([&] { make(attributes); });
  }
  void make(const CqAttributes& a) { engine.destroy_cq(engine.create_cq(a)); }
  void make(const ReceiveAttributes& a) { engine.destroy_receives(engine.create_receives(a)); }
  void make(const QpAttributes& a) { engine.destroy_qp(engine.create_qp(a)); }
};

}  // namespace

TEST_CASE("transitions_are_refused_at_the_bounds_and_out_of_order") {
  Objects some;
  soft::Engine& engine = some.engine;
  const std::uint32_t qp = engine.create_qp(some.qp);
  const auto rtr = [&](const QpRtr& wanted) {
    engine.modify_to_reset(qp);
    engine.modify_to_init(qp, {});
    return refusal([&] { engine.modify_to_rtr(qp, wanted); });
  };
  const auto rts = [&](const QpRts& wanted) {
    CHECK(rtr({}) == "none");
    return refusal([&] { engine.modify_to_rts(qp, wanted); });
  };
  const std::string range = "3: a field of the queue pair context is out of its range";
  for (const std::uint32_t mtu : {0u, 128u, 1000u, 8192u})
    CHECK(rtr({.mtu = mtu}) == strprintf("3: path MTU of %u bytes", mtu));
  for (const std::uint32_t mtu : {256u, 512u, 1024u, 2048u, 4096u})
    CHECK(rtr({.mtu = mtu}) == "none");
  CHECK(rtr({.remote_qpn = 0xfffffe,
             .log_message_max = 31,
             .log_responder_reads = 7,
             .receive_psn = 0xffffff,
             .min_rnr_timer = 31}) == "none");
  for (const QpRtr& beyond : {QpRtr{.remote_qpn = 0xffffff}, QpRtr{.log_message_max = 32},
                              QpRtr{.log_responder_reads = 8}, QpRtr{.receive_psn = 0x1000000},
                              QpRtr{.min_rnr_timer = 32}})
    CHECK(rtr(beyond) == range);
  CHECK(rts({.retries = 7,
             .rnr_retries = 7,
             .ack_timeout = 31,
             .log_initiator_reads = 7,
             .send_psn = 0xffffff,
             .min_rnr_timer = 31}) == "none");
  for (const QpRts& beyond :
       {QpRts{.retries = 8}, QpRts{.rnr_retries = 8}, QpRts{.ack_timeout = 32},
        QpRts{.log_initiator_reads = 8}, QpRts{.send_psn = 0x1000000}, QpRts{.min_rnr_timer = 32}})
    CHECK(rts(beyond) == range);

  // Which states each transition leaves; those of a queue pair: reset, init, rtr, rts, error.
  const auto to = [&](int state) {
    engine.modify_to_reset(qp);
    if (state >= 1) engine.modify_to_init(qp, {});
    if (state >= 2) engine.modify_to_rtr(qp, {});
    if (state >= 3) engine.modify_to_rts(qp, {});
    if (state >= 4) engine.modify_to_error(qp);
  };
  const auto refused = [&](const char* name, int state) {
    return strprintf("16: queue pair 0x%x: to %s from state %d", qp, name, state == 4 ? 6 : state);
  };
  for (int state = 0; state <= 4; ++state) {
    to(state);
    CHECK(refusal([&] { engine.modify_to_init(qp, {}); }) ==
          (state <= 1 ? "none" : refused("init", state)));
    to(state);
    CHECK(refusal([&] { engine.modify_to_rtr(qp, {}); }) ==
          (state == 1 ? "none" : refused("rtr", state)));
    to(state);
    CHECK(refusal([&] { engine.modify_to_rts(qp, {}); }) ==
          (state == 2 || state == 3 ? "none" : refused("rts", state)));
    to(state);
    CHECK(refusal([&] { engine.modify_to_error(qp); }) ==
          (state >= 1 ? "none" : strprintf("16: queue pair 0x%x is in reset", qp)));
  }
}

TEST_CASE("a_device_that_is_removed_makes_and_changes_nothing") {
  Pair pair;
  Objects some;  // attributes alone: their numbers are of another engine
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

namespace {

/// One variable while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

std::string options_with(const char* name, const char* value) {
  const Variable variable(name, value);
  return refusal([&] { (void)soft::EngineOptions::from_env(); });
}

}  // namespace

TEST_CASE("all_variables_of_the_engine_are_read_and_checked") {
  const soft::EngineOptions plain = soft::EngineOptions::from_env();
  CHECK(plain.fabric.empty());
  CHECK(plain.adversary.empty());
  CHECK(plain.rules.empty());
  CHECK(plain.seed == 1);
  CHECK(plain.devices == 1);
  CHECK(plain.strict == soft::Strictness::kCard);
  {
    const Variable fabric("GSHNIC_FABRIC", "/some"), adversary("GSHNIC_ADVERSARY", "on"),
        rules("GSHNIC_RULES", "drop"), seed("GSHNIC_SEED", "0x12"), devices("GSHNIC_DEVICES", "8"),
        strict("GSHNIC_STRICT", "0");
    const soft::EngineOptions options = soft::EngineOptions::from_env();
    CHECK(options.fabric == "/some");
    CHECK(options.adversary == "on");
    CHECK(options.rules == "drop");
    CHECK(options.seed == 0x12);
    CHECK(options.devices == 8);
    CHECK(options.strict == soft::Strictness::kLoose);
  }
  const Variable strict("GSHNIC_STRICT", "1");
  CHECK(soft::EngineOptions::from_env().strict == soft::Strictness::kStrict);
  for (const char* bad : {"2", "10", "yes"})
    CHECK(options_with("GSHNIC_STRICT", bad) ==
          strprintf("3: GSHNIC_STRICT=\"%s\": expected 0 or 1", bad));
  for (const char* bad : {"-1", "x", "1x", "0x1ffffffffffffffff"})
    CHECK(options_with("GSHNIC_SEED", bad) ==
          strprintf("3: GSHNIC_SEED=\"%s\": expected a number", bad));
  for (const char* bad : {"0", "9", "11", "a"})
    CHECK(options_with("GSHNIC_DEVICES", bad) ==
          strprintf("3: GSHNIC_DEVICES=\"%s\": expected a number from 1 to 8", bad));
  CHECK(options_with("GSHNIC_DEVICES", "1") == "none");
}

namespace {

/// All of a rule.
std::string text_of(const soft::Rule& rule) {
  const auto number = [](std::uint64_t value) {
    return value == ~std::uint64_t{0} ? std::string("*") : std::to_string(value);
  };
  return strprintf("queue %d %llu wqe %s-%s kinds %x times %s action %d syndrome %u vendor %u %llu",
                   static_cast<int>(rule.queue), static_cast<unsigned long long>(rule.queue_value),
                   number(rule.first).c_str(), number(rule.last).c_str(), rule.kinds,
                   number(rule.times).c_str(), static_cast<int>(*rule.action), rule.syndrome,
                   rule.vendor, static_cast<unsigned long long>(rule.delay_ns));
}

std::string rule_of(const char* text) {
  const std::vector<soft::Rule> rules = soft::parse_rules(text);
  REQUIRE(rules.size() == 1);
  return text_of(rules[0]);
}

}  // namespace

TEST_CASE("rules_are_all_that_their_text_says") {
  const char* const actions[] = {
      "",           "drop",       "rnr",       "", "key=remote", "queue=error", "queue=reset",
      "peer=error", "cq=overrun", "port=down", "", "device=gone"};
  for (std::size_t i = 0; i < std::size(actions); ++i) {
    if (*actions[i] == '\0') continue;
    CHECK(rule_of(actions[i]) == strprintf("queue 0 0 wqe 0-* kinds ffffffff times * action %zu "
                                           "syndrome 0 vendor 0 0",
                                           i));
  }
  CHECK(rule_of("qp=0x41:wqe=3:times=0:syndrome=255:vendor=255") ==
        "queue 1 65 wqe 3-3 kinds ffffffff times 0 action 0 syndrome 255 vendor 255 0");
  CHECK(rule_of("qp=#0xffffff:wqe=3-0x10:times=7:delay=5ns") ==
        "queue 2 16777215 wqe 3-16 kinds ffffffff times 7 action 3 syndrome 0 vendor 0 5");
  CHECK(rule_of("qp=*:wqe=*:op=*:drop") == rule_of("drop"));
  for (const auto& [unit, ns] : {std::pair{"3ns", 3ull},
                                 {"3us", 3'000ull},
                                 {"3ms", 3'000'000ull},
                                 {"3s", 3'000'000'000ull}}) {
    CHECK(soft::parse_rules(std::string("delay=") + unit)[0].delay_ns == ns);
    CHECK(soft::parse_rules(std::string("port=flap:") + unit)[0].delay_ns == ns);
  }
  CHECK(soft::parse_rules("delay=3600s")[0].delay_ns == 3'600'000'000'000);
  CHECK(refusal([] { (void)soft::parse_rules("delay=3601s"); }) ==
        "3: GSHNIC_RULES: \"delay=3601s\": expected delay=n with ns, us, ms or s, up to an hour");
  CHECK(soft::parse_rules("delay=3600000000000ns")[0].delay_ns == 3'600'000'000'000);
  CHECK(refusal([] { (void)soft::parse_rules("delay=3600000000001ns"); }) != "none");
  const std::string most = std::to_string(~std::uint64_t{0});
  CHECK(soft::parse_rules("drop:wqe=5-" + most)[0].last == ~std::uint64_t{0});
  CHECK(soft::parse_rules("drop:times=" + most)[0].times == ~std::uint64_t{0});
  using nic::WqeKind;
  const auto bit = [](WqeKind kind) { return 1u << static_cast<unsigned>(kind); };
  const std::pair<const char*, std::uint32_t> kinds[] = {
      {"nop", bit(WqeKind::kNop)},
      {"write", bit(WqeKind::kWrite)},
      {"read", bit(WqeKind::kRead)},
      {"cas", bit(WqeKind::kCompareSwap)},
      {"fadd", bit(WqeKind::kFetchAdd)},
      {"mcas", bit(WqeKind::kMaskedCompareSwap)},
      {"mfadd", bit(WqeKind::kMaskedFetchAdd)},
      {"atomic", bit(WqeKind::kCompareSwap) + bit(WqeKind::kFetchAdd) +
                     bit(WqeKind::kMaskedCompareSwap) + bit(WqeKind::kMaskedFetchAdd)},
      {"dump", bit(WqeKind::kDump)},
      {"send", bit(WqeKind::kSend)}};
  for (const auto& [word, expected] : kinds)
    CHECK(soft::parse_rules(std::string("drop:op=") + word)[0].kinds == expected);
  const std::vector<soft::Rule> several = soft::parse_rules(";drop:times=1; rnr,,device=gone,");
  REQUIRE(several.size() == 3);
  CHECK(several[1].action == soft::Rule::Action::kRnr);
  CHECK(soft::parse_rules("").empty());
  const std::pair<const char*, const char*> bad[] = {
      {"qp=0x1000000:drop", "\"qp=0x1000000\": expected a number up to 16777215"},
      {"drop:vendor=256", "\"vendor=256\": expected a number up to 255"},
      {"wqe=x:drop", "\"wqe=x\": expected wqe=*, wqe=n or wqe=n-m"},
      {"wqe=:drop", "\"wqe=\": expected wqe=*, wqe=n or wqe=n-m"},
      {"wqe=-3:drop", "\"wqe=-3\": expected wqe=*, wqe=n or wqe=n-m"},
      {"wqe=1:2:drop",
       "\"2\": expected qp=, wqe=, op=, times=, syndrome=, vendor=, drop, rnr, "
       "delay=, key=remote, queue=error, queue=reset, peer=error, cq=overrun, "
       "port=down, port=flap:n or device=gone"},
      {"wqe=1+2:drop", "\"wqe=1+2\": expected wqe=*, wqe=n or wqe=n-m"},
      {"op=x:drop", "\"op=x\": expected op=* nop write read cas fadd mcas mfadd atomic dump"},
      {"drop:rnr", "\"rnr\": expected one action in a rule"},
      {"drop:syndrome=1", "\"syndrome=1\": expected one action in a rule"},
      {"syndrome=0", "\"syndrome=0\": expected a syndrome that is not 0"},
      {"times=1",
       "\"times=1\": expected an action: syndrome=, drop, rnr, delay=, key=, queue=, "
       "peer=, cq=, port= or device="},
      {"port=flap:times=2",
       "\"port=flap:times=2\": expected port=flap:n with ns, us, ms or s, up to an hour"}};
  for (const auto& [text, reason] : bad)
    CHECK(refusal([text = text] { (void)soft::parse_rules(text); }) ==
          std::string("3: GSHNIC_RULES: ") + reason);
}

TEST_CASE("an_entry_meets_the_first_rule_that_is_left_and_within_whose_bounds_it_is") {
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

#include "transport/softnic/rules.h"

#include "transport/softnic/parts.h"

namespace gshmem::soft {
namespace {

[[noreturn]] void bad(std::string_view part, const std::string& expected) {
  bad_part("GSHNIC_RULES", part, expected);
}

/// Removes a number from the front of `text` and returns it.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  const bool hex = text.substr(0, 2) == "0x";
  const char* first = text.data() + (hex ? 2 : 0);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(first, text.data() + text.size(), value, hex ? 16 : 10);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::uint64_t number(std::string_view part, std::string_view text, std::uint64_t max) {
  const auto value = take_number(text);
  if (!value || !text.empty() || *value > max) bad(part, "a number up to " + std::to_string(max));
  return *value;
}

constexpr std::uint32_t bit(nic::WqeKind kind) { return 1u << static_cast<unsigned>(kind); }

std::uint32_t kinds_of(std::string_view part, std::string_view word) {
  using nic::WqeKind;
  struct Row {
    std::string_view word;
    std::uint32_t kinds;
  };
  static constexpr Row kRows[] = {
      {"*", ~0u},
      {"nop", bit(WqeKind::kNop)},
      {"write", bit(WqeKind::kWrite)},
      {"read", bit(WqeKind::kRead)},
      {"cas", bit(WqeKind::kCompareSwap)},
      {"fadd", bit(WqeKind::kFetchAdd)},
      {"mcas", bit(WqeKind::kMaskedCompareSwap)},
      {"mfadd", bit(WqeKind::kMaskedFetchAdd)},
      {"atomic", bit(WqeKind::kCompareSwap) | bit(WqeKind::kFetchAdd) |
                     bit(WqeKind::kMaskedCompareSwap) | bit(WqeKind::kMaskedFetchAdd)},
      {"dump", bit(WqeKind::kDump)},
      {"send", bit(WqeKind::kSend)},
      {"wait", bit(WqeKind::kWait)},
  };
  for (const Row& row : kRows) {
    if (row.word == word) return row.kinds;
  }
  bad(part, "op=* nop write read cas fadd mcas mfadd atomic dump send wait");
}

void parse_queue(Rule& rule, std::string_view part, std::string_view value) {
  if (value == "*") return;
  const bool ordinal = value.substr(0, 1) == "#";
  if (ordinal) value.remove_prefix(1);
  rule.queue = ordinal ? Rule::Queue::kOrdinal : Rule::Queue::kNumber;
  rule.queue_value = number(part, value, 0xffffff);
}

void parse_range(Rule& rule, std::string_view part, std::string_view value) {
  if (value == "*") return;
  const auto first = take_number(value);
  if (!first) bad(part, "wqe=*, wqe=n or wqe=n-m");
  rule.first = rule.last = *first;
  if (value.empty()) return;
  if (value[0] != '-') bad(part, "wqe=*, wqe=n or wqe=n-m");
  rule.last = number(part, value.substr(1), ~std::uint64_t{0});
}

void set_action(Rule& rule, std::string_view part, Rule::Action action) {
  if (rule.action) bad(part, "one action in a rule");
  rule.action = action;
}

/// Parses "20ms" into nanoseconds. The limit of an hour is long enough for any test, and cannot
/// overflow.
std::optional<std::uint64_t> duration(std::string_view value) {
  const auto count = take_number(value);
  std::uint64_t unit = 0;
  if (value == "ns") unit = 1;
  if (value == "us") unit = 1'000;
  if (value == "ms") unit = 1'000'000;
  if (value == "s") unit = 1'000'000'000;
  if (!count || unit == 0 || *count > 3'600'000'000'000 / unit) return std::nullopt;
  return *count * unit;
}

void parse_delay(Rule& rule, std::string_view part, std::string_view value) {
  const auto length = duration(value);
  if (!length) bad(part, "delay=n with ns, us, ms or s, up to an hour");
  set_action(rule, part, Rule::Action::kDelay);
  rule.delay_ns = *length;
}

/// Returns the action for a part that is one word.
std::optional<Rule::Action> action_of(std::string_view part) {
  using Action = Rule::Action;
  struct Row {
    std::string_view text;
    Action action;
  };
  static constexpr Row kRows[] = {
      {"drop", Action::kDrop},
      {"rnr", Action::kRnr},
      {"key=remote", Action::kRemoteKey},
      {"queue=error", Action::kQueueError},
      {"queue=reset", Action::kQueueReset},
      {"peer=error", Action::kPeerError},
      {"cq=overrun", Action::kCqOverrun},
      {"port=down", Action::kPortDown},
      {"port=flap", Action::kPortFlap},
      {"device=gone", Action::kDeviceGone},
  };
  for (const Row& row : kRows) {
    if (row.text == part) return row.action;
  }
  return std::nullopt;
}

void parse_field(Rule& rule, std::string_view part) {
  const auto equals = part.find('=');
  const std::string_view name = part.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
  if (name == "qp") return parse_queue(rule, part, value);
  if (name == "wqe") return parse_range(rule, part, value);
  if (name == "delay") return parse_delay(rule, part, value);
  if (name == "op") {
    rule.kinds = kinds_of(part, value);
  } else if (name == "times") {
    rule.times = number(part, value, ~std::uint64_t{0});
  } else if (name == "syndrome") {
    set_action(rule, part, Rule::Action::kSyndrome);
    rule.syndrome = static_cast<std::uint8_t>(number(part, value, 255));
    if (rule.syndrome == 0) bad(part, "a syndrome that is not 0");
  } else if (name == "vendor") {
    rule.vendor = static_cast<std::uint8_t>(number(part, value, 255));
  } else if (const auto action = action_of(part)) {
    set_action(rule, part, *action);
  } else if (const auto length = duration(part); length && rule.action == Rule::Action::kPortFlap) {
    rule.delay_ns = *length;
  } else {
    bad(part,
        "qp=, wqe=, op=, times=, syndrome=, vendor=, drop, rnr, delay=, key=remote, queue=error, "
        "queue=reset, peer=error, cq=overrun, port=down, port=flap:n or device=gone");
  }
}

}  // namespace

std::vector<Rule> parse_rules(std::string_view text) {
  std::vector<Rule> rules;
  for_each_part(text, ";, ", [&](std::string_view one) {
    if (one.empty()) return;
    Rule rule;
    for_each_part(one, ":", [&](std::string_view part) {
      if (!part.empty()) parse_field(rule, part);
    });
    if (!rule.action)
      bad(one,
          "an action: syndrome=, drop, rnr, delay=, key=, queue=, peer=, cq=, port= or device=");
    if (rule.action == Rule::Action::kPortFlap && rule.delay_ns == 0) {
      bad(one, "port=flap:n with ns, us, ms or s, up to an hour");
    }
    rules.push_back(rule);
  });
  return rules;
}

const Rule* RuleSet::match(std::uint32_t qpn, std::uint64_t ordinal, std::uint64_t wqe,
                           nic::WqeKind kind) {
  for (Rule& rule : rules_) {
    if (rule.times == 0 || wqe < rule.first || wqe > rule.last) continue;
    if ((rule.kinds & bit(kind)) == 0) continue;
    if (rule.queue == Rule::Queue::kNumber && rule.queue_value != qpn) continue;
    if (rule.queue == Rule::Queue::kOrdinal && rule.queue_value != ordinal) continue;
    --rule.times;
    return &rule;
  }
  return nullptr;
}

}  // namespace gshmem::soft

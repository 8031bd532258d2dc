#include "transport/softnic/adversary.h"

#include "transport/softnic/parts.h"

namespace gshmem::soft {
namespace {

constexpr std::size_t kBehaviours = static_cast<std::size_t>(Behaviour::kCount);
constexpr std::string_view kNames[kBehaviours] = {
    "starve",         "batch",     "late_start",  "late_completion", "reorder_bytes",
    "reorder_writes", "late_read", "late_atomic", "coalesce",        "skip",
    "late_flush",     "drop",      "drop_reply",  "trailing_read",   "trailing_write"};

/// splitmix64's finaliser (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

void set_all(AdversaryOptions& options, double probability) {
  options.probability.fill(probability);
  // Hardware may do this only where reads or waits must be followed by a DUMP, so both are off by
  // default.
  for (const Behaviour trails : {Behaviour::kTrailingRead, Behaviour::kTrailingWrite})
    options.probability[static_cast<std::size_t>(trails)] = 0;
}

void parse_item(AdversaryOptions& options, std::string_view item) {
  if (item == "off" || item == "0") return set_all(options, 0);
  if (item == "on" || item == "1") return set_all(options, 0.125);
  if (item == "all") return set_all(options, 0.5);
  const auto equals = item.find('=');
  for (std::size_t i = 0; i < kBehaviours && equals != std::string_view::npos; ++i) {
    if (item.substr(0, equals) != kNames[i]) continue;
    const double probability = number_of<double>(item.substr(equals + 1)).value_or(-1);
    if (!(probability >= 0 && probability <= 1)) break;
    options.probability[i] = probability;
    return;
  }
  std::string names;
  for (const std::string_view name : kNames) names += " " + std::string(name);
  bad_part("GSHNIC_ADVERSARY", item,
           "off, on, all, or one of" + names + " with =probability from 0 to 1");
}

}  // namespace

bool AdversaryOptions::any() const {
  for (const double p : probability) {
    if (p > 0) return true;
  }
  return false;
}

AdversaryOptions parse_adversary(std::string_view text) {
  AdversaryOptions options;
  for_each_part(text, ",; ", [&](std::string_view item) {
    if (!item.empty()) parse_item(options, item);
  });
  return options;
}

std::uint64_t Adversary::hash(Behaviour behaviour, std::uint64_t queue,
                              std::uint64_t number) const {
  const std::uint64_t which = queue * kBehaviours + static_cast<std::size_t>(behaviour);
  return mix(mix(mix(seed_ + 0x9e3779b97f4a7c15) + which) + number);
}

bool Adversary::roll(Behaviour behaviour, std::uint64_t queue, std::uint64_t number) const {
  const double p = options_.probability[static_cast<std::size_t>(behaviour)];
  return p > 0 && static_cast<double>(hash(behaviour, queue, number) >> 11) * 0x1p-53 < p;
}

std::int64_t Adversary::delay_ns(Behaviour behaviour, std::uint64_t queue,
                                 std::uint64_t number) const {
  if (!decides(behaviour, queue, number)) return 0;
  const std::uint64_t bits = mix(hash(behaviour, queue, number));
  constexpr std::uint64_t kSeldom = 64, kShortNs = 30'000, kLongNs = 1'000'000;
  return static_cast<std::int64_t>(bits / kSeldom % (bits % kSeldom ? kShortNs : kLongNs));
}

}  // namespace gshmem::soft

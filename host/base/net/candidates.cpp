#include "host/base/net/candidates.h"

#include <algorithm>
#include <map>

namespace gshmem::net {
namespace {

bool same_network(const Candidate& a, const Candidate& b) {
  if (a.family != b.family || a.prefix_bits != b.prefix_bits) return false;
  for (int bit = 0; bit < a.prefix_bits; bit += 8) {
    const int kept = std::min(8, a.prefix_bits - bit);
    const auto byte = static_cast<std::size_t>(bit / 8);
    if ((a.ip[byte] ^ b.ip[byte]) >> (8 - kept) != 0) return false;
  }
  return true;
}

bool same_address(const Candidate& a, const Candidate& b) {
  return a.family == b.family && a.ip == b.ip;
}

template <class Predicate>
bool any(const Candidates& host, const Predicate& predicate) {
  return std::ranges::any_of(host, [&](const Candidate& c) { return c.valid && predicate(c); });
}

/// The rank of an address; a lower one is better. The last value decides between networks that all
/// hosts are on.
using Rank = std::array<std::size_t, 3>;
enum Reach : std::size_t { kEveryHost, kSomeHosts, kNotUnique };

Rank rank_of(const Candidate& mine, const std::vector<Candidates>& hosts, std::size_t node) {
  std::size_t reach = kEveryHost;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    if (host == node) continue;
    if (any(hosts[host], [&](const Candidate& c) { return same_address(c, mine); }))
      return {!mine.wanted, kNotUnique};
    if (!any(hosts[host], [&](const Candidate& c) { return same_network(c, mine); }))
      reach = kSomeHosts;
  }
  if (reach == kSomeHosts) return {!mine.wanted, reach};
  const Candidates& first = hosts.front();
  const auto place =
      std::ranges::find_if(first, [&](const Candidate& c) { return same_network(c, mine); });
  return {!mine.wanted, reach, static_cast<std::size_t>(place - first.begin())};
}

}  // namespace

Candidates candidates_of(const std::vector<Interface>& interfaces, const Config& config) {
  Candidates candidates{};
  std::size_t count = 0;
  const auto add = [&](const std::vector<Interface>& list, bool wanted) {
    for (const Interface& interface : list) {
      Candidate candidate{.family = interface.address.family,
                          .prefix_bits = static_cast<std::uint8_t>(interface.prefix_bits),
                          .wanted = wanted,
                          .valid = true,
                          .ip = interface.address.ip};
      const bool known =
          any(candidates, [&](const Candidate& c) { return same_address(c, candidate); });
      if (!known && count < candidates.size()) candidates.at(count++) = candidate;
    }
  };
  add(fitting_interfaces(interfaces, config.uid_interface, config.uid_family), true);
  add(fitting_interfaces(interfaces, "", AddressFamily::kAny), false);
  return candidates;
}

std::vector<Candidate> order_addresses(const std::vector<Candidates>& hosts, int node) {
  const auto mine = static_cast<std::size_t>(node);
  std::multimap<Rank, Candidate> ranked;  // candidates of one rank keep their order
  for (const Candidate& candidate : hosts.at(mine))
    if (candidate.valid) ranked.emplace(rank_of(candidate, hosts, mine), candidate);
  std::vector<Candidate> ordered;
  for (const auto& [rank, candidate] : ranked) ordered.push_back(candidate);
  return ordered;
}

}  // namespace gshmem::net

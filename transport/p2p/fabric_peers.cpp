#include "transport/p2p/fabric_peers.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace gshmem::p2p {

void FabricOffer::set_why(const std::string& reason) { why[reason.copy(why, sizeof(why) - 1)] = 0; }

std::vector<FabricOffer> exchange_offers(Collectives& boot, const FabricOffer& mine) {
  std::vector<FabricOffer> offers = allgather(boot, mine);
  for (std::size_t pe = 0; pe < offers.size(); ++pe) {
    if (offers[pe].state != FabricOffer::State::kFailed) continue;
    throw Error(static_cast<gshmemx_status>(offers[pe].code),
                strprintf("init failed on PE %zu: %s", pe, offers[pe].why));
  }
  return offers;
}

std::vector<int> fabric_domains(const std::vector<FabricOffer>& offers, FabricUse use) {
  using Key = std::tuple<std::uint64_t, std::array<std::uint8_t, 16>, std::uint32_t>;
  std::map<Key, int> numbers;
  std::vector<int> domains;
  for (const FabricOffer& offer : offers) {
    if (offer.state != FabricOffer::State::kHandle || use == FabricUse::kOff) {
      domains.push_back(-1);
      continue;
    }
    // Heaps of another size do not fit into the slots of a window.
    Key key{offer.heap_bytes, {}, {}};
    if (use != FabricUse::kOn) key = {offer.heap_bytes, offer.cluster, offer.clique};
    domains.push_back(numbers.try_emplace(key, static_cast<int>(numbers.size())).first->second);
  }
  return domains;
}

std::vector<int> components(const std::vector<int>& local_groups, const std::vector<int>& domains) {
  // Each local group points to a connected group with a lower number, or to itself.
  std::vector<int> root(local_groups.size());
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](int group) {
    while (root[static_cast<std::size_t>(group)] != group)
      group = root[static_cast<std::size_t>(group)];
    return group;
  };
  std::map<int, int> group_of_domain;
  for (std::size_t pe = 0; pe < domains.size(); ++pe) {
    if (domains[pe] < 0) continue;
    const int first = group_of_domain.try_emplace(domains[pe], local_groups[pe]).first->second;
    const int a = find(first), b = find(local_groups[pe]);
    root[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
  }
  std::vector<int> numbers;
  for (const int group : local_groups) numbers.push_back(find(group));
  return numbers;
}

std::vector<int> members(const std::vector<int>& numbers, int number) {
  std::vector<int> pes;
  for (std::size_t pe = 0; pe < numbers.size(); ++pe) {
    if (numbers[pe] == number) pes.push_back(static_cast<int>(pe));
  }
  return pes;
}

std::size_t largest(const std::vector<int>& numbers) {
  std::map<int, std::size_t> counts;
  std::size_t most = 0;
  for (const int number : numbers) most = std::max(most, ++counts[number]);
  return most;
}

}  // namespace gshmem::p2p

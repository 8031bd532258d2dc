#include "transport/ofi/info_choice.h"

#include "host/base/error.h"
#include "host/base/net/socket.h"
#include "transport/nic/pci_distance.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace gshmem::ofi {
namespace {

std::optional<net::Endpoint> endpoint_of(const fi_info& info) {
  const bool ip = info.addr_format == FI_SOCKADDR_IN || info.addr_format == FI_SOCKADDR_IN6;
  return net::endpoint_from(ip ? static_cast<const sockaddr*>(info.src_addr) : nullptr);
}

bool is_loopback(const fi_info& info) {
  const auto source = endpoint_of(info);
  return source && net::is_loopback(*source);
}

/// Ranks how well the entry matches; 0 is best. An entry whose address is not in the list comes
/// after those whose addresses are.
std::size_t rank_of(const fi_info& info, const std::vector<std::string>& addresses) {
  const auto place = std::ranges::find(addresses, source_of(info));
  const auto rank = static_cast<std::size_t>(place - addresses.begin());
  return place == addresses.end() && is_loopback(info) ? rank + 1 : rank;
}

/// Returns the nearest of entries that match equally well.
std::vector<const fi_info*> nearest(const std::vector<const fi_info*>& equal,
                                    const EntryWish& wish) {
  std::vector<const fi_info*> entries;
  std::vector<nic::Candidate> nics;
  int beside = 0;  // number of NICs under the GPU's root port
  for (const fi_info* info : equal) {
    const std::string pci = pci_of(*info), domain = info->domain_attr->name;
    // The distance on the PCI bus does not tell which networks reach all hosts.
    if (pci.empty() || !source_of(*info).empty()) break;
    const bool known =
        std::ranges::any_of(nics, [&](const nic::Candidate& n) { return n.device == domain; });
    const bool same = info->ep_attr->protocol == equal.front()->ep_attr->protocol &&
                      std::strcmp(info->fabric_attr->name, equal.front()->fabric_attr->name) == 0;
    if (known || !same) continue;
    entries.push_back(info);
    nics.push_back(
        {.device = domain, .distance = nic::function_distance(wish.sysfs, pci, wish.gpu_pci)});
    beside += nics.back().distance <= nic::Distance::kPxb;
  }
  if (entries.empty()) return {equal.front()};
  const int count = wish.count > 0 ? wish.count : std::clamp(beside, 1, wish.most);
  std::vector<const fi_info*> chosen;
  for (const int i : nic::choose_devices(nics, wish.local_rank, count))
    chosen.push_back(entries[static_cast<std::size_t>(i)]);
  return chosen;
}

}  // namespace

std::string pci_of(const fi_info& info) {
  if (info.nic == nullptr || info.nic->bus_attr == nullptr) return {};
  if (info.nic->bus_attr->bus_type != FI_BUS_PCI) return {};
  const fi_pci_attr& pci = info.nic->bus_attr->attr.pci;
  return strprintf("%04x:%02x:%02x.%x", pci.domain_id, pci.bus_id, pci.device_id, pci.function_id);
}

std::string source_of(const fi_info& info) {
  const auto source = endpoint_of(info);
  return source ? net::address_text(*source) : "";
}

bool is_layered(const char* name) {
  return std::strncmp(name, "ofi_hook", 8) == 0 || std::strstr(name, ";ofi_hook") != nullptr;
}

std::vector<const fi_info*> choose_entries(const fi_info* list, const EntryWish& wish) {
  std::vector<const fi_info*> best;
  std::size_t best_rank = 0;
  for (const fi_info* i = list; i != nullptr; i = i->next) {
    if (is_layered(i->fabric_attr->prov_name)) continue;
    if (!wish.domain.empty() && wish.domain != i->domain_attr->name) continue;
    const std::size_t rank = rank_of(*i, wish.addresses);
    if (!best.empty() && rank > best_rank) continue;
    if (!best.empty() && rank < best_rank) best.clear();
    best.push_back(i);
    best_rank = rank;
  }
  if (best.empty()) return {};
  return nearest(best, wish);
}

}  // namespace gshmem::ofi

#include "transport/ofi/provider.h"

#include "transport/ofi/info_choice.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace gshmem::ofi {
namespace {

/// Of the interface, the version this is written against: the oldest with all that is used, so that
/// later libraries keep its meaning (fi_getinfo(3), "version").
constexpr std::uint32_t kApiVersion = FI_VERSION(1, 14);

// Best first: hardware that has reliable unconnected endpoints, then RDMA over connections, then
// sockets. `sockets` is old, but some installations have nothing else.
constexpr const char* kOrder[] = {"efa", "cxi", "verbs;ofi_rxm", "tcp;ofi_rxm", "sockets"};

/// Atomics on GPU memory only where the NIC carries them out. In software they are copies by the
/// CUDA runtime on the legacy default stream (libfabric 1.17, rxm_do_device_mem_atomic in
/// fi_cq_read): they wait for a kernel that may be waiting for them. And efa refuses FI_ATOMIC with
/// FI_HMEM below version 1.18 of the interface, from which on it makes such copies
/// (efa_user_info_alter_rdm). What is not asked for goes as active messages.
bool needs_atomics(const std::string& provider, const Wanted& wanted) {
  return !wanted.gpu_memory || provider == "cxi";
}

std::uint64_t needed_caps(const std::string& provider, const Wanted& wanted) {
  return FI_MSG | FI_RMA | (needs_atomics(provider, wanted) ? FI_ATOMIC : 0) |
         (wanted.gpu_memory ? FI_HMEM : 0);
}

struct Question {
  std::string provider;  ///< empty = any
  std::string node;      ///< empty = any source address
  std::uint64_t caps = 0;
  fi_ep_type type = FI_EP_UNSPEC;
};

/// fi_getinfo; null when nothing matches.
InfoPtr ask(const Library& library, const Question& question) {
  InfoPtr hints(library.dupinfo(nullptr));  // what fi_allocinfo does
  require(hints != nullptr, GSHMEMX_ERROR_OUT_OF_MEMORY, "fi_dupinfo: out of memory");
  hints->caps = question.caps;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = question.type;
  // Only "delivered" means that data is where it belongs (fi_cq(3), completion levels).
  if (question.caps & FI_RMA) hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
  hints->domain_attr->mr_mode =
      FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ENDPOINT;
  if (question.caps & FI_HMEM) hints->domain_attr->mr_mode |= FI_MR_HMEM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;  // one thread, the executor's
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->av_type = FI_AV_TABLE;
  if (!question.provider.empty())
    hints->fabric_attr->prov_name = strdup(question.provider.c_str());  // fi_freeinfo frees it

  fi_info* found = nullptr;
  const bool source = !question.node.empty();
  const int result =
      library.getinfo(kApiVersion, source ? question.node.c_str() : nullptr, source ? "0" : nullptr,
                      source ? FI_SOURCE : 0, hints.get(), &found);
  if (result == 0) return InfoPtr(found);
  if (result != -FI_ENODATA)
    GSHMEM_DEBUG("fi_getinfo(%s): %s", question.provider.c_str(), library.text(result).c_str());
  return nullptr;
}

/// The address of a network interface of this host; empty when there is none of that name.
std::string address_of_interface(const std::string& name) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != family || name != i->ifa_name)
        continue;
      char text[INET6_ADDRSTRLEN] = "";
      sockaddr_in v4{};
      sockaddr_in6 v6{};
      if (family == AF_INET) std::memcpy(&v4, i->ifa_addr, sizeof(v4));
      if (family == AF_INET6) std::memcpy(&v6, i->ifa_addr, sizeof(v6));
      if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) continue;
      const void* address = &v6.sin6_addr;
      if (family == AF_INET) address = &v4.sin_addr;
      if (inet_ntop(family, address, text, sizeof(text)) != nullptr) return text;
    }
  return {};
}

/// Of what fi_getinfo gave, the entry to use, alone.
InfoPtr pick(const Library& library, const fi_info* list, const EntryWish& wish) {
  const fi_info* const best = choose_entry(list, wish);
  return best != nullptr ? InfoPtr(library.dupinfo(best)) : nullptr;
}

/// One provider, on the interface that is wanted; null when it cannot be used.
InfoPtr try_provider(const Library& library, const std::string& name, const Wanted& wanted) {
  Question question{.provider = name,
                    .node = wanted.interface,
                    .caps = needed_caps(name, wanted),
                    .type = FI_EP_RDM};
  EntryWish wish{.gpu_pci = wanted.gpu_pci, .local_rank = wanted.local_rank};
  if (wanted.interface.empty()) {
    const InfoPtr list = ask(library, question);
    wish.addresses = wanted.addresses;
    return pick(library, list.get(), wish);
  }
  const std::string address = address_of_interface(wanted.interface);
  if (!address.empty()) question.node = address;
  if (const InfoPtr list = ask(library, question)) {
    // Providers without IP addresses may ignore the node: those are chosen by domain below.
    const bool by_address =
        list->addr_format == FI_SOCKADDR_IN || list->addr_format == FI_SOCKADDR_IN6;
    if (by_address) return pick(library, list.get(), wish);
  }
  question.node.clear();
  const InfoPtr list = ask(library, question);
  wish.domain = wanted.interface;
  return pick(library, list.get(), wish);
}

/// Does the provider of exactly this name have `caps`? fi_getinfo takes "tcp" for "tcp;ofi_rxm"
/// too.
bool has(const Library& library, const std::string& name, std::uint64_t caps) {
  const InfoPtr list =
      ask(library, {.provider = name, .node = {}, .caps = caps, .type = FI_EP_RDM});
  for (const fi_info* i = list.get(); i != nullptr; i = i->next)
    if (name == i->fabric_attr->prov_name) return true;
  return false;
}

/// efa_rdm_get_use_device_rdma: with this version of the interface off by default where EFA has no
/// RDMA writes.
std::string remedy(const std::string& name, std::uint64_t cap) {
  if (name != "efa" || cap != FI_HMEM) return {};
  return " (on P4 instances FI_EFA_USE_DEVICE_RDMA=1 enables it)";
}

/// Why a provider that fi_getinfo knows was not taken.
std::string why_not(const Library& library, const std::string& name, const Wanted& wanted) {
  if (!has(library, name, 0)) return "has no FI_EP_RDM endpoints";
  const std::uint64_t needed = needed_caps(name, wanted);
  const std::pair<std::uint64_t, const char*> needs[] = {
      {FI_MSG, "FI_MSG"}, {FI_RMA, "FI_RMA"}, {FI_ATOMIC, "FI_ATOMIC"}, {FI_HMEM, "FI_HMEM"}};
  std::string all;
  for (const auto& [cap, text] : needs) {
    if ((needed & cap) == 0) continue;
    if (!has(library, name, cap)) return std::string("has no ") + text + remedy(name, cap);
    all += (all.empty() ? "" : " + ") + std::string(text);
  }
  if (!has(library, name, needed))
    return "has " + all + " with delivery-complete only apart from each other";
  if (try_provider(library, name, wanted)) return "is usable, but was not asked for";
  return "is not on interface " + wanted.interface;
}

[[noreturn]] void refuse(const Library& library, const Wanted& wanted) {
  std::string offers;
  std::map<std::string, bool> seen;
  const InfoPtr list = ask(library, {});
  for (const fi_info* i = list.get(); i != nullptr; i = i->next) {
    const std::string name = i->fabric_attr->prov_name;
    if (is_layered(name.c_str()) || !seen.emplace(name, true).second) continue;
    offers += (offers.empty() ? "" : "; ") + name + " " + why_not(library, name, wanted);
  }
  std::string what = "libfabric " + library.version_text() + " has no provider";
  if (!wanted.provider.empty()) what += " GSHMEM_OFI_PROVIDER=\"" + wanted.provider + "\"";
  if (!wanted.interface.empty()) what += " on GSHMEM_OFI_INTERFACE=\"" + wanted.interface + "\"";
  what += " with FI_EP_RDM, FI_MSG, FI_RMA and ";
  what += wanted.gpu_memory ? "FI_HMEM" : "FI_ATOMIC";
  what += ". Here it offers: " + (offers.empty() ? std::string("nothing") : offers);
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, what);
}

}  // namespace

InfoPtr choose_provider(const Library& library, const Wanted& wanted) {
  if (!wanted.provider.empty()) {
    if (InfoPtr found = try_provider(library, wanted.provider, wanted)) return found;
    refuse(library, wanted);
  }
  for (const char* name : kOrder)
    if (InfoPtr found = try_provider(library, name, wanted)) return found;
  refuse(library, wanted);
}

std::string describe_provider(const fi_info& info) {
  std::string what = info.fabric_attr->prov_name;
  const std::string source = source_of(info);
  if (!source.empty()) what += " on " + source;
  return what + " (domain " + info.domain_attr->name + ")";
}

}  // namespace gshmem::ofi

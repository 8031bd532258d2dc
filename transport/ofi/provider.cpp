#include "transport/ofi/provider.h"

#include "host/base/net/interfaces.h"
#include "transport/ofi/environment.h"
#include "transport/ofi/info_choice.h"
#include "transport/ofi/ofi_rails.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <set>
#include <vector>

namespace gshmem::ofi {
namespace {

/// The version of the libfabric interface that this code uses. It is the oldest version with
/// everything that is used, so that later libraries keep its meaning (fi_getinfo(3), "version").
/// From 1.18 on efa calls CUDA unless two options are set, which are set for all (environment.cpp).
constexpr std::uint32_t kApiVersion = FI_VERSION(1, 14);

/// A provider and its fabric; empty = any.
struct Name {
  std::string provider, fabric;
};
Name split(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return {text, ""};
  return {text.substr(0, slash), text.substr(slash + 1)};
}

// The providers, best first: hardware with reliable unconnected endpoints, then RDMA over
// connections, then TCP. efa-direct is EFA without its software device. The provider `sockets` is
// never used: it is deprecated, and it stalls when a TCP window closes within a message header
// (libfabric 1.17, in the provider's peek of a header).
constexpr const char* kDirect = "efa/efa-direct";
constexpr const char* kOrder[] = {kDirect, "efa", "cxi", "verbs;ofi_rxm", "tcp;ofi_rxm"};
constexpr const char* kUnusable = "sockets";

/// Atomics are requested only if the NIC executes them. Software atomics occupy the target's
/// thread, as active messages do, but none of a queue overlap. In GPU memory they are copies by the
/// CUDA runtime on the legacy default stream (libfabric 1.17, rxm_do_device_mem_atomic in
/// fi_cq_read). These wait for a kernel that may be waiting for them. Atomics that are not
/// requested are sent as active messages.
bool needs_atomics(const std::string& provider) { return provider == "cxi"; }

std::uint64_t needed_caps(const std::string& provider, const Wanted& wanted) {
  return FI_MSG | FI_RMA | (needs_atomics(provider) ? FI_ATOMIC : 0) |
         (wanted.gpu_memory ? FI_HMEM : 0);
}

struct Question {
  Name name;         ///< empty = any
  std::string node;  ///< empty = any source address
  std::uint64_t caps = 0;
  fi_ep_type type = FI_EP_UNSPEC;
};

/// Calls fi_getinfo; returns null when nothing matches.
InfoPtr ask(const Library& library, const Question& question) {
  InfoPtr hints(library.dupinfo(nullptr));  // this is what fi_allocinfo does
  require(hints != nullptr, GSHMEMX_ERROR_OUT_OF_MEMORY, "fi_dupinfo: out of memory");
  hints->caps = question.caps;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = question.type;
  // Only the level "delivered" means that data is in memory (fi_cq(3), completion levels).
  // efa-direct only has the acknowledgement of the NIC at the other end, as efa has for RDMA.
  const bool direct = question.name.fabric == "efa-direct";
  if (question.caps & FI_RMA)
    hints->tx_attr->op_flags = direct ? FI_TRANSMIT_COMPLETE : FI_DELIVERY_COMPLETE;
  hints->domain_attr->mr_mode =
      FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ENDPOINT;
  if (question.caps & FI_HMEM) hints->domain_attr->mr_mode |= FI_MR_HMEM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;  // the only thread is the executor's
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->av_type = FI_AV_TABLE;
  if (!question.name.provider.empty())  // fi_freeinfo frees the names
    hints->fabric_attr->prov_name = strdup(question.name.provider.c_str());
  if (!question.name.fabric.empty())
    hints->fabric_attr->name = strdup(question.name.fabric.c_str());

  fi_info* found = nullptr;
  const bool source = !question.node.empty();
  const int result =
      library.getinfo(kApiVersion, source ? question.node.c_str() : nullptr, source ? "0" : nullptr,
                      source ? FI_SOURCE : 0, hints.get(), &found);
  if (result == 0) return InfoPtr(found);
  GSHMEM_DEBUG("fi_getinfo(%s): %s", question.name.provider.c_str(), library.text(result).c_str());
  return nullptr;
}

/// Returns the address of a network interface of this host; empty when there is no interface of
/// that name.
std::string address_of_interface(const std::string& name) {
  const std::vector<net::Interface> all = net::list_interfaces();
  using Family = net::Endpoint::Family;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const net::Interface& each : all) {
      if (each.name == name && each.address.family == family && !net::is_link_local(each.address))
        return net::address_text(each.address);
    }
  }
  return {};
}

/// Returns the entries of fi_getinfo to use, each alone.
std::vector<InfoPtr> pick(const Library& library, const fi_info* list, const EntryWish& wish) {
  std::vector<InfoPtr> picked;
  for (const fi_info* entry : choose_entries(list, wish))
    picked.emplace_back(library.dupinfo(entry));
  return picked;
}

/// Tries one provider, on the wanted interface; returns nothing when it cannot be used.
std::vector<InfoPtr> try_provider(const Library& library, const std::string& text,
                                  const Wanted& wanted) {
  const Name name = split(text);
  if (name.fabric == "efa-direct" && wanted.large_messages) return {};
  Question question{.name = name,
                    .node = wanted.interface,
                    .caps = needed_caps(name.provider, wanted),
                    .type = FI_EP_RDM};
  EntryWish wish{.gpu_pci = wanted.gpu_pci,
                 .local_rank = wanted.local_rank,
                 .count = wanted.nics,
                 .most = static_cast<int>(kMaxRails)};
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

/// Does the provider of exactly this name have `caps`? fi_getinfo also accepts "tcp" for
/// "tcp;ofi_rxm".
bool has(const Library& library, const std::string& name, std::uint64_t caps) {
  const InfoPtr list =
      ask(library, {.name = {name, ""}, .node = {}, .caps = caps, .type = FI_EP_RDM});
  for (const fi_info* i = list.get(); i != nullptr; i = i->next)
    if (name == i->fabric_attr->prov_name) return true;
  return false;
}

/// Returns advice for a provider without FI_HMEM.
std::string remedy(const std::string& name, std::uint64_t cap) {
  if (cap != FI_HMEM) return {};
  const std::string missing = missing_cuda_runtime();
  if (!missing.empty()) return " (" + missing + ")";
  // efa_rdm_get_use_device_rdma: with this version of the interface it is off by default if EFA has
  // no RDMA writes. The variable ends the process if EFA has no RDMA at all, so it is not set here.
  if (name == "efa") return " (on P4 instances FI_EFA_USE_DEVICE_RDMA=1 enables it)";
  return " (FI_LOG_LEVEL=warn says why, if it was built with CUDA)";
}

/// Returns why a provider that fi_getinfo knows was not used.
std::string why_not(const Library& library, const std::string& name, const Wanted& wanted) {
  if (name == kUnusable) return "is deprecated, stalls, and is never used";
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
  if (!try_provider(library, name, wanted).empty()) return "is usable, but was not asked for";
  return "is not on interface " + wanted.interface;
}

[[noreturn]] void refuse(const Library& library, const Wanted& wanted) {
  std::string offers;
  std::set<std::string> seen;
  const InfoPtr list = ask(library, {});
  for (const fi_info* i = list.get(); i != nullptr; i = i->next) {
    const std::string name = i->fabric_attr->prov_name;
    if (is_layered(name.c_str()) || !seen.insert(name).second) continue;
    offers += (offers.empty() ? "" : "; ") + name + " " + why_not(library, name, wanted);
  }
  std::string what = "libfabric " + library.version_text() + " has no provider";
  if (!wanted.provider.empty()) what += " GSHMEM_OFI_PROVIDER=\"" + wanted.provider + "\"";
  if (!wanted.interface.empty()) what += " on GSHMEM_OFI_INTERFACE=\"" + wanted.interface + "\"";
  what += wanted.gpu_memory ? " with FI_EP_RDM, FI_MSG, FI_RMA and FI_HMEM"
                            : " with FI_EP_RDM, FI_MSG and FI_RMA";
  what += ". Here it offers: " + (offers.empty() ? std::string("nothing") : offers);
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED, what);
}

}  // namespace

std::vector<InfoPtr> choose_provider(const Library& library, const Wanted& wanted) {
  const std::string& asked = wanted.provider;
  for (const char* name : kOrder) {
    const bool this_one = asked.empty() || asked == split(name).provider || asked == name;
    if (!this_one) continue;
    if (auto found = try_provider(library, name, wanted); !found.empty()) return found;
  }
  const bool other = std::ranges::none_of(kOrder, [&](const char* name) { return asked == name; });
  if (!asked.empty() && other && asked != kUnusable) {
    if (auto found = try_provider(library, asked, wanted); !found.empty()) return found;
  }
  refuse(library, wanted);
}

std::string network_for_gpus(const Library& library) {
  for (const char* name : {"efa", "cxi"})
    if (has(library, name, FI_MSG)) return name;
  return {};
}

std::string describe_provider(const fi_info& info) {
  std::string what = info.fabric_attr->prov_name;
  const std::string source = source_of(info);
  if (!source.empty()) what += " on " + source;
  return what + " (domain " + info.domain_attr->name + ")";
}

}  // namespace gshmem::ofi

#include "tests/doubles/fabric/profiles.h"

#include "tests/doubles/fabric/fabric_double.h"
#include "tests/doubles/fabric/wire.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace gshmem::test {
namespace {

constexpr std::uint64_t kMessages = FI_MSG | FI_SEND | FI_RECV;
constexpr std::uint64_t kRma = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t kData = kMessages | kRma | FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr std::uint64_t kUsual =
    FI_INJECT | FI_COMPLETION | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
constexpr int kBasic = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
constexpr std::uint64_t kGiB = 1u << 30, kUnlimited = ~std::uint64_t{0};

constexpr Profile kProfiles[] = {
    // prov/efa/docs/efa_fabric_comparison.md: no order, no completion level above the
    // acknowledgement, messages of one packet, progress by the device.
    {"efa-direct", "efa", "efa-direct", kData | FI_HMEM, 0,
     FI_INJECT | FI_COMPLETION | FI_TRANSMIT_COMPLETE, FI_CONTEXT2, kBasic | FI_MR_LOCAL,
     FI_PROGRESS_AUTO, 1024, 32, 4, kGiB, 8928, false, false},
    {"efa", "efa", "efa", kData | FI_HMEM | FI_ATOMIC, FI_ORDER_SAS, kUsual, 0, kBasic,
     FI_PROGRESS_MANUAL, 2048, 4096, 4, kUnlimited, kUnlimited, false, true},
    {"cxi", "cxi", "cxi", kData | FI_HMEM | FI_ATOMIC, FI_ORDER_SAS, kUsual, 0,
     FI_MR_ENDPOINT | FI_MR_ALLOCATED, FI_PROGRESS_MANUAL, 1024, 192, 0, kGiB, kGiB, false, true},
    {"verbs;ofi_rxm", "verbs;ofi_rxm", "10.0.0.0/8", kData | FI_HMEM | FI_ATOMIC, FI_ORDER_SAS,
     kUsual, 0, kBasic | FI_MR_LOCAL, FI_PROGRESS_MANUAL, 2048, 16320, 4, kGiB, kGiB, true, true},
    {"tcp;ofi_rxm", "tcp;ofi_rxm", "127.0.0.0/8", kData | FI_ATOMIC, FI_ORDER_SAS, kUsual, 0, 0,
     FI_PROGRESS_MANUAL, 2048, 16320, 8, kUnlimited, kUnlimited, true, false},
    {"sockets", "sockets", "127.0.0.0/8", kData | FI_ATOMIC, FI_ORDER_SAS, kUsual, 0, kBasic,
     FI_PROGRESS_AUTO, 2048, 255, 8, kUnlimited, kUnlimited, true, false},
    // gshmem does not know these.
    {"opx", "opx", "opx", kData, FI_ORDER_SAS, kUsual, 0, kBasic, FI_PROGRESS_MANUAL, 2048, 0, 8,
     kGiB, kGiB, false, false},
    // gshmem cannot use these: they lack RMA, or delivery-complete of GPU memory, or are connected
    // endpoints.
    {"udp", "udp", "127.0.0.0/8", kMessages, 0, kUsual, 0, 0, FI_PROGRESS_MANUAL, 2048, 0, 0, 1472,
     1472, true, false},
    {"psm2", "psm2", "psm2", kMessages | kRma | FI_HMEM, 0, kUsual, 0, 0, FI_PROGRESS_MANUAL, 2048,
     0, 0, kGiB, kGiB, false, false},
    {"tcp", "tcp", "127.0.0.0/8", kMessages | kRma, 0, kUsual, 0, 0, FI_PROGRESS_MANUAL, 2048, 0, 0,
     kGiB, kGiB, true, false, FI_EP_MSG},
};

template <class T>
T* copy_of(const T* from) {
  if (from == nullptr) return nullptr;
  return static_cast<T*>(std::memcpy(std::malloc(sizeof(T)), from, sizeof(T)));
}
void* bytes_of(const void* from, std::size_t bytes) {
  return from == nullptr || bytes == 0 ? nullptr : std::memcpy(std::malloc(bytes), from, bytes);
}
char* text_of(const char* from) { return from == nullptr ? nullptr : strdup(from); }

template <class T>
void allocate(T*& part) {
  part = static_cast<T*>(std::calloc(1, sizeof(T)));
}

fi_info* new_info() {
  fi_info* info = nullptr;
  allocate(info);
  allocate(info->tx_attr);
  allocate(info->rx_attr);
  allocate(info->ep_attr);
  allocate(info->domain_attr);
  allocate(info->fabric_attr);
  return info;
}

/// Each NIC is on a bus of its own.
void place_on_pci(fi_info& info, int nic) {
  allocate(info.nic);
  allocate(info.nic->bus_attr);
  info.nic->bus_attr->bus_type = FI_BUS_PCI;
  info.nic->bus_attr->attr.pci.bus_id = static_cast<std::uint8_t>(0x10 + nic);
}

void give_address(fi_info& info, int nic) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + static_cast<std::uint32_t>(nic));
  info.addr_format = FI_SOCKADDR_IN;
  info.src_addr = bytes_of(&address, sizeof(address));
  info.src_addrlen = sizeof(address);
}

fi_info* offer(const Profile& profile, int nic, std::uint64_t caps, const fi_info* hints) {
  fi_info* const info = new_info();
  const bool gpu = (caps & FI_HMEM) != 0;
  info->caps = caps;
  info->mode = profile.mode;
  info->tx_attr->caps = info->rx_attr->caps = caps;
  info->tx_attr->inject_size = profile.inject;
  info->tx_attr->size = info->rx_attr->size = profile.places;
  if (const std::size_t places = record().places; places != 0) info->tx_attr->size = places;
  info->tx_attr->iov_limit = info->rx_attr->iov_limit = info->tx_attr->rma_iov_limit = 1;
  if (hints != nullptr && hints->tx_attr != nullptr) {
    info->tx_attr->op_flags = hints->tx_attr->op_flags;
    info->tx_attr->msg_order = info->rx_attr->msg_order = hints->tx_attr->msg_order;
  }
  info->ep_attr->type = profile.type;
  info->ep_attr->protocol = FI_PROTO_EFA;
  info->ep_attr->max_msg_size = profile.largest;
  info->domain_attr->name = strdup((std::string(profile.provider) + std::to_string(nic)).c_str());
  info->domain_attr->threading = FI_THREAD_DOMAIN;
  info->domain_attr->control_progress = info->domain_attr->data_progress = profile.progress;
  info->domain_attr->resource_mgmt = FI_RM_ENABLED;
  info->domain_attr->av_type = FI_AV_TABLE;
  info->domain_attr->mr_mode = profile.mr_mode | (gpu ? FI_MR_HMEM : 0);
  info->domain_attr->mr_key_size = 4;
  info->domain_attr->cq_data_size = profile.cq_data;
  info->fabric_attr->name = strdup(profile.fabric);
  info->fabric_attr->prov_name = strdup(profile.provider);
  if (profile.has_addresses) give_address(*info, nic);
  if (!profile.has_addresses) place_on_pci(*info, nic);
  return info;
}

bool name_matches(const char* wanted, const char* name) {
  if (wanted == nullptr) return true;
  // "tcp" also selects "tcp;ofi_rxm".
  const std::size_t length = std::strlen(wanted);
  return std::strncmp(name, wanted, length) == 0 && (name[length] == 0 || name[length] == ';');
}

/// Can the profile do what the hints say? They are as strict as ofi_check_info of libfabric.
bool suits(const Profile& profile, std::uint32_t version, const char* node, const fi_info& hints) {
  FabricDouble& rules = record();
  const fi_fabric_attr& fabric = *hints.fabric_attr;
  if (!name_matches(fabric.prov_name, profile.provider)) return false;
  if (fabric.name != nullptr && std::strcmp(fabric.name, profile.fabric) != 0) return false;
  const fi_ep_type type = hints.ep_attr->type;
  if (type != FI_EP_UNSPEC && type != profile.type) return false;
  const std::uint64_t caps = profile.caps & (rules.hmem ? kUnlimited : ~FI_HMEM);
  if ((hints.caps & ~caps) != 0) return false;
  // efa_user_info_alter_rdm
  const bool both = (hints.caps & FI_ATOMIC) != 0 && (hints.caps & FI_HMEM) != 0;
  if (both && std::strcmp(profile.provider, "efa") == 0 && version < FI_VERSION(1, 18))
    return false;
  std::uint64_t op_flags = profile.op_flags;
  if ((hints.caps & FI_HMEM) != 0 && std::strcmp(profile.provider, "psm2") == 0)
    op_flags &= ~FI_DELIVERY_COMPLETE;
  if ((hints.tx_attr->op_flags & ~op_flags) != 0) return false;
  if ((hints.tx_attr->msg_order & ~profile.orders) != 0) return false;
  if (hints.caps != 0 && (profile.mode & ~hints.mode) != 0) return false;
  if (hints.caps != 0 && (profile.mr_mode & ~hints.domain_attr->mr_mode) != 0) return false;
  return node == nullptr || !profile.has_addresses || std::strcmp(node, "127.0.0.1") == 0;
}

}  // namespace

const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != 0 ? value : nullptr;
}

const Profile& profile_of(const fi_info& info) {
  for (const Profile& profile : kProfiles) {
    const bool same = std::strcmp(profile.provider, info.fabric_attr->prov_name) == 0;
    if (same && std::strcmp(profile.fabric, info.fabric_attr->name) == 0) return profile;
  }
  std::abort();
}

int nic_of(const fi_info& info) {
  const std::string name = info.domain_attr->name;
  return std::stoi(name.substr(std::strlen(info.fabric_attr->prov_name)));
}

fi_info* duplicate(const fi_info* from) {
  if (from == nullptr) return new_info();
  fi_info* const info = copy_of(from);
  info->next = nullptr;
  info->src_addr = bytes_of(from->src_addr, from->src_addrlen);
  info->dest_addr = bytes_of(from->dest_addr, from->dest_addrlen);
  info->tx_attr = copy_of(from->tx_attr);
  info->rx_attr = copy_of(from->rx_attr);
  info->ep_attr = copy_of(from->ep_attr);
  info->domain_attr = copy_of(from->domain_attr);
  info->fabric_attr = copy_of(from->fabric_attr);
  if (info->domain_attr != nullptr) info->domain_attr->name = text_of(from->domain_attr->name);
  if (info->fabric_attr != nullptr) {
    info->fabric_attr->name = text_of(from->fabric_attr->name);
    info->fabric_attr->prov_name = text_of(from->fabric_attr->prov_name);
  }
  info->nic = copy_of(from->nic);
  if (info->nic != nullptr) info->nic->bus_attr = copy_of(from->nic->bus_attr);
  return info;
}

void release(fi_info* info) {
  while (info != nullptr) {
    fi_info* const next = info->next;
    if (info->domain_attr != nullptr) std::free(info->domain_attr->name);
    if (info->fabric_attr != nullptr) {
      std::free(info->fabric_attr->name);
      std::free(info->fabric_attr->prov_name);
    }
    if (info->nic != nullptr) std::free(info->nic->bus_attr);
    void* const parts[] = {info->src_addr, info->dest_addr,   info->tx_attr,     info->rx_attr,
                           info->ep_attr,  info->domain_attr, info->fabric_attr, info->nic};
    for (void* part : parts) std::free(part);
    std::free(info);
    info = next;
  }
}

int find_infos(std::uint32_t version, const char* node, std::uint64_t flags, const fi_info* hints,
               fi_info** found) {
  FabricDouble& rules = record();
  fi_info* const all = hints == nullptr ? new_info() : nullptr;
  const fi_info& wanted = hints == nullptr ? *all : *hints;
  const char* const source = (flags & FI_SOURCE) != 0 ? node : nullptr;
  fi_info** end = found;
  *found = nullptr;
  for (const std::string& offered : rules.offered()) {
    for (const Profile& profile : kProfiles) {
      if (offered != profile.name) continue;
      if (!suits(profile, version, source, wanted)) continue;
      const std::uint64_t able = profile.caps & (rules.hmem ? kUnlimited : ~FI_HMEM);
      const std::uint64_t caps = wanted.caps == 0 ? able : wanted.caps | (able & kData);
      for (int nic = 0; nic < rules.nics; ++nic, end = &(*end)->next)
        *end = offer(profile, nic, caps, hints);
    }
  }
  release(all);
  return *found == nullptr ? -FI_ENODATA : 0;
}

}  // namespace gshmem::test

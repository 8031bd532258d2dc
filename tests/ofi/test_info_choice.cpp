// Tests which entry of a list by fi_getinfo is used, on made-up lists.
#include "transport/ofi/info_choice.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>

using gshmem::ofi::EntryWish;

namespace {

namespace fs = std::filesystem;

/// One NIC or network.
struct Entry {
  std::string domain;
  int bus = -1;         ///< its PCI address is 0000:BUS:00.0; -1: it has none
  std::string address;  ///< IP address
  std::uint32_t protocol = FI_PROTO_EFA;
  std::string provider = "efa", fabric = "efa";
};

class List {
 public:
  explicit List(const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) add(entry);
  }
  /// Returns the domain of the chosen entry.
  std::string choose(const EntryWish& wish) const {
    std::string names;
    for (const fi_info* info : gshmem::ofi::choose_entries(&nodes_.front().info, wish))
      names += (names.empty() ? "" : " ") + std::string(info->domain_attr->name);
    return names.empty() ? "none" : names;
  }

 private:
  struct Node {
    Entry entry;
    fi_info info{};
    fi_domain_attr domain{};
    fi_fabric_attr fabric{};
    fi_ep_attr endpoint{};
    fid_nic nic{};
    fi_bus_attr bus{};
    sockaddr_in address{};
    sockaddr_in6 address6{};
  };
  void add(const Entry& entry) {
    Node& node = nodes_.emplace_back();
    node.entry = entry;
    node.domain.name = node.entry.domain.data();
    node.fabric.prov_name = node.entry.provider.data();
    node.fabric.name = node.entry.fabric.data();
    node.endpoint.protocol = entry.protocol;
    node.info.domain_attr = &node.domain;
    node.info.fabric_attr = &node.fabric;
    node.info.ep_attr = &node.endpoint;
    if (entry.bus >= 0) {
      node.bus.bus_type = FI_BUS_PCI;
      node.bus.attr.pci.bus_id = static_cast<std::uint8_t>(entry.bus);
      node.nic.bus_attr = &node.bus;
      node.info.nic = &node.nic;
    }
    if (inet_pton(AF_INET6, entry.address.c_str(), &node.address6.sin6_addr) == 1) {
      node.address6.sin6_family = AF_INET6;
      node.info.addr_format = FI_SOCKADDR_IN6;
      node.info.src_addr = &node.address6;
      node.info.src_addrlen = sizeof(node.address6);
    } else if (!entry.address.empty()) {
      node.address.sin_family = AF_INET;
      inet_pton(AF_INET, entry.address.c_str(), &node.address.sin_addr);
      node.info.addr_format = FI_SOCKADDR_IN;
      node.info.src_addr = &node.address;
      node.info.src_addrlen = sizeof(node.address);
    }
    if (nodes_.size() > 1) nodes_[nodes_.size() - 2].info.next = &node.info;
  }

  std::deque<Node> nodes_;
};

/// A host with two switches: GPU 0x11 beside NICs 0x12 and 0x13, GPU 0x21 beside NIC 0x22 and, one
/// switch farther away, NIC 0x23.
class TwoSwitches {
 public:
  TwoSwitches()
      : root_(fs::temp_directory_path() / ("gshmem_entries_" + std::to_string(getpid()))) {
    fs::create_directories(root_ / "bus/pci/devices");
    for (const auto& [bus, bridge] : {std::pair{"11", "10"},
                                      {"12", "10"},
                                      {"13", "10"},
                                      {"21", "20"},
                                      {"22", "20"},
                                      {"23", "20"}}) {
      const std::string name = std::string("0000:") + bus + ":00.0";
      const std::string farther = bus == std::string("23") ? "0000:24:00.0/0000:25:00.0" : "";
      const fs::path place = root_ / "devices" / (std::string("pci0000:") + bridge) /
                             (std::string("0000:") + bridge + ":01.0") / farther / name;
      fs::create_directories(place);
      fs::create_directory_symlink(place, root_ / "bus/pci/devices" / name);
    }
  }
  ~TwoSwitches() { fs::remove_all(root_); }
  [[nodiscard]] EntryWish wish(const std::string& gpu_pci, int local_rank) const {
    return {.gpu_pci = gpu_pci, .local_rank = local_rank, .sysfs = root_.string()};
  }

 private:
  fs::path root_;
};

}  // namespace

TEST_CASE("a PE uses the NIC nearest to its GPU, and PEs alternate between equally near ones",
          "[ofi]") {
  const TwoSwitches host;
  const List list(
      {{"rdmap18-rdm", 0x12, {}}, {"rdmap19-rdm", 0x13, {}}, {"rdmap34-rdm", 0x22, {}}});
  CHECK(list.choose(host.wish("0000:11:00.0", 0)) == "rdmap18-rdm");
  CHECK(list.choose(host.wish("0000:11:00.0", 1)) == "rdmap19-rdm");
  CHECK(list.choose(host.wish("0000:11:00.0", 2)) == "rdmap18-rdm");
  for (const int rank : {0, 1, 2})
    CHECK(list.choose(host.wish("0000:21:00.0", rank)) == "rdmap34-rdm");
}

TEST_CASE("a PE uses several NICs, those beside its GPU, and neighbours begin with others",
          "[ofi]") {
  const TwoSwitches host;
  const List list({{"a", 0x12, {}}, {"b", 0x13, {}}, {"c", 0x22, {}}});
  EntryWish wish = host.wish("0000:11:00.0", 0);
  wish.count = 2;
  CHECK(list.choose(wish) == "a b");
  wish.local_rank = 1;
  CHECK(list.choose(wish) == "b a");
  wish.count = 3;
  CHECK(list.choose(wish) == "b a c");
  // All NICs beside the GPU.
  wish.count = 0;
  wish.most = 8;
  CHECK(list.choose(wish) == "b a");
  wish.count = 1;
  CHECK(list.choose(wish) == "b");
  wish.count = 0;
  wish.gpu_pci = "0000:21:00.0";
  CHECK(List({{"c", 0x22, {}}, {"d", 0x23, {}}, {"e", 0x13, {}}}).choose(wish) == "c d");
  CHECK(list.choose(wish) == "c");
  wish.gpu_pci = "";
  CHECK(list.choose(wish) == "b");
}

TEST_CASE("PEs without a GPU, or with a hidden one, use NICs in turn", "[ofi]") {
  const TwoSwitches host;
  const List list({{"cxi0", 0x12, {}}, {"cxi1", 0x13, {}}, {"cxi2", 0x22, {}}});
  for (const char* gpu : {"", "0000:77:00.0"}) {
    CHECK(list.choose(host.wish(gpu, 0)) == "cxi0");
    CHECK(list.choose(host.wish(gpu, 1)) == "cxi1");
    CHECK(list.choose(host.wish(gpu, 2)) == "cxi2");
    CHECK(list.choose(host.wish(gpu, 3)) == "cxi0");
  }
}

TEST_CASE("a NIC has a PCI address only if it is on a PCI bus", "[ofi]") {
  fi_info info{};
  CHECK(gshmem::ofi::pci_of(info).empty());
  fid_nic nic{};
  info.nic = &nic;
  CHECK(gshmem::ofi::pci_of(info).empty());
  fi_bus_attr bus{};
  bus.attr.pci = {.domain_id = 0x12, .bus_id = 0xab, .device_id = 0xc, .function_id = 3};
  nic.bus_attr = &bus;
  bus.bus_type = FI_BUS_UNKNOWN;
  CHECK(gshmem::ofi::pci_of(info).empty());
  bus.bus_type = FI_BUS_PCI;
  CHECK(gshmem::ofi::pci_of(info) == "0012:ab:0c.3");
}

TEST_CASE("networks with IP addresses are chosen by those", "[ofi]") {
  const TwoSwitches host;
  const List list({{"lo", -1, "127.0.0.1"}, {"ib0", 0x12, "10.0.0.1"}, {"ib1", 0x22, "10.1.0.1"}});
  EntryWish wish = host.wish("0000:21:00.0", 1);
  CHECK(list.choose(wish) == "ib0");
  wish.addresses = {"10.2.0.1", "10.1.0.1"};
  CHECK(list.choose(wish) == "ib1");
  CHECK(list.choose({.domain = "lo"}) == "lo");
  CHECK(list.choose({.domain = "eth0"}) == "none");
  const List six({{"lo", -1, "::1"}, {"ib0", 0x12, "fd00::1"}, {"ib1", 0x22, "fd00:0:0:1::1"}});
  CHECK(six.choose(wish) == "ib0");
  wish.addresses = {"fd00:0:0:1::1"};
  CHECK(six.choose(wish) == "ib1");
}

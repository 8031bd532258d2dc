// Selects the RDMA devices and ports that a PE may use, and the network that connects all PEs.
// transport/nic/pci_distance.h and gid_choice.h choose the nearest of them and their GIDs. Pure:
// device.cpp passes the devices that exist, tests pass any.
#pragma once

#include "transport/nic/gid_choice.h"
#include "transport/nic/pci_distance.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gshmem::nic::mlx5 {

/// GSHMEM_NIC_DEVICES: "mlx5_0:1,mlx5_2" prefixes, "=mlx5_0" exact names, "^mlx5_1" all but these,
/// "^=..." all but exactly these. The sign is given once, at the front.
class DeviceFilter {
 public:
  /// Errors: GSHMEMX_ERROR_CONFIG.
  explicit DeviceFilter(const std::string& text);
  [[nodiscard]] bool accepts(const std::string& device, int port) const;

 private:
  struct Word {
    std::string device;
    int port = 0;  ///< 0: any
  };
  bool exclude_ = false, exact_ = false;
  std::vector<Word> words_;
};

/// The network that a port is connected to: an InfiniBand subnet, identified by its prefix, or
/// Ethernet, which is routed.
struct Network {
  LinkLayer layer = LinkLayer::kInfiniBand;
  std::uint8_t reserved[7] = {};
  std::uint64_t prefix = 0;
  [[nodiscard]] bool operator==(const Network& other) const {
    return layer == other.layer && prefix == other.prefix;
  }
};
/// The networks of a PE; that of its nearest port is first.
using Networks = std::vector<Network>;
/// Returns the network on which every PE has a port. Of several it returns the one that is first
/// for most PEs. Returns nothing when there is none. `all` is indexed by PE.
[[nodiscard]] std::optional<Network> common_network(const std::vector<Networks>& all);
/// Returns for example "InfiniBand subnet fe80000000000000", "Ethernet".
[[nodiscard]] std::string network_text(const Network& network);

}  // namespace gshmem::nic::mlx5

// Which RDMA devices and ports a PE may use, and on which network all PEs meet. The nearest of them
// and their GIDs are a matter of transport/nic/pci_distance.h and gid_choice.h. Pure; device.cpp
// gives it what there is, tests what they like.
#pragma once

#include "transport/nic/gid_choice.h"
#include "transport/nic/pci_distance.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gshmem::nic::mlx5 {

/// GSHMEM_NIC_DEVICES: "mlx5_0:1,mlx5_2" prefixes, "=mlx5_0" exact names, "^mlx5_1" all but these,
/// "^=..." all but exactly these; the sign stands once, at the front.
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

/// The network that a port reaches: an InfiniBand subnet, by its prefix, or Ethernet, which is
/// routed.
struct Network {
  LinkLayer layer = LinkLayer::kInfiniBand;
  std::uint8_t reserved[7] = {};
  std::uint64_t prefix = 0;
  [[nodiscard]] bool operator==(const Network& other) const {
    return layer == other.layer && prefix == other.prefix;
  }
};
/// Those of a PE, the one of its nearest port first.
using Networks = std::vector<Network>;
/// The network that every PE has a port on; of several the one that is the first of most PEs. None
/// when there is none. `all`: by PE.
[[nodiscard]] std::optional<Network> common_network(const std::vector<Networks>& all);
/// "InfiniBand subnet fe80000000000000", "Ethernet".
[[nodiscard]] std::string network_text(const Network& network);

}  // namespace gshmem::nic::mlx5

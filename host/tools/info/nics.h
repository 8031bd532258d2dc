// RDMA network cards of this machine, as sysfs lists them, for a person to read. None is opened.
#pragma once

#include <string>
#include <vector>

namespace gshmem::info {

/// One port of a card. A text is empty if sysfs does not have it.
struct NicPort {
  std::string device;        ///< "mlx5_0"
  int port = 0;              ///< 1 is the first
  std::string link_layer;    ///< "InfiniBand", "Ethernet"
  std::string state;         ///< "ACTIVE", "DOWN", ...
  std::string rate;          ///< "400 Gb/sec (4X NDR)"
  std::string phys_state{};  ///< "LinkUp", "Polling", "Disabled", ...
};

/// Returns the ports of <sysfs_root>/class/infiniband, by device and port; none when the folder is
/// missing.
[[nodiscard]] std::vector<NicPort> nic_ports(const std::string& sysfs_root);

}  // namespace gshmem::info

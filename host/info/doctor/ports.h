// Ports of RDMA devices with their GID tables, and the network devices behind them. Included by
// checks.
#pragma once

#include "host/info/doctor/machine.h"
#include "host/info/nics.h"

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gshmem::info {

[[nodiscard]] std::vector<NicPort> rdma_ports(const Machine& machine);
[[nodiscard]] std::filesystem::path port_folder(const Machine& machine, const NicPort& port);
/// "mlx5_0 port 1".
[[nodiscard]] std::string port_name(const NicPort& port);
[[nodiscard]] inline bool is_ethernet(const NicPort& port) { return port.link_layer == "Ethernet"; }
[[nodiscard]] inline bool is_active(const NicPort& port) { return port.state == "ACTIVE"; }

struct Gid {
  int index = 0;
  std::array<std::uint8_t, 16> bytes{};
  std::string text;    ///< as sysfs writes it
  bool v2 = false;     ///< RoCE v2; else RoCE v1 or InfiniBand
  std::string netdev;  ///< network device it belongs to; empty on InfiniBand

  [[nodiscard]] bool ipv4() const;  ///< ::ffff:a.b.c.d
  /// The address for people: dotted for IPv4.
  [[nodiscard]] std::string address() const;
};
/// Entries of the port's table that are not zero.
[[nodiscard]] std::vector<Gid> gids(const Machine& machine, const NicPort& port);
/// The rule of GSHMEM_IB_GID_INDEX: the index itself, or for -1 RoCE v2 over IPv4 where there is
/// one, else 0. Null when that entry is empty.
[[nodiscard]] const Gid* chosen_gid(const std::vector<Gid>& table, int wanted);

/// The network device of a RoCE port, by its GIDs, else by the PCI function; empty = none seen.
[[nodiscard]] std::string port_netdev(const Machine& machine, const NicPort& port);

}  // namespace gshmem::info

// Ports of RDMA devices with their GID tables, and their network devices. Included by
// checks.
#pragma once

#include "host/tools/doctor/checks.h"
#include "host/tools/doctor/machine.h"
#include "host/tools/info/nics.h"
#include "transport/nic/gid_choice.h"

#include <filesystem>
#include <string>
#include <vector>

namespace gshmem::info {

[[nodiscard]] std::vector<NicPort> rdma_ports(const Machine& machine);
[[nodiscard]] std::filesystem::path port_folder(const Machine& machine, const NicPort& port);
/// Returns for example "mlx5_0 port 1".
[[nodiscard]] std::string port_name(const NicPort& port);
[[nodiscard]] inline bool is_ethernet(const NicPort& port) { return port.link_layer == "Ethernet"; }
[[nodiscard]] inline bool is_active(const NicPort& port) { return port.state == "ACTIVE"; }

/// Returns the findings of `look` for each active port, Ethernet only or all; skipped if there is
/// none.
enum class Links { kAll, kEthernet };
template <class Look>
[[nodiscard]] Findings at_active_ports(const Machine& machine, Links links, const Look& look) {
  Findings findings;
  for (const NicPort& port : rdma_ports(machine)) {
    if (is_active(port) && (links == Links::kAll || is_ethernet(port))) {
      findings.push_back(look(port));
    }
  }
  const char* const kind = links == Links::kAll ? "RDMA" : "RoCE";
  if (findings.empty())
    findings.push_back(skipped(std::string("there is no active ") + kind + " port"));
  return findings;
}

/// Returns the entries of the port's table that are not zero.
[[nodiscard]] std::vector<nic::GidEntry> gids(const Machine& machine, const NicPort& port);
/// Returns the GID that gshmem would use, by GSHMEM_IB_GID_INDEX; null = that entry is empty.
[[nodiscard]] const nic::GidEntry* chosen_gid(const Machine& machine, const NicPort& port,
                                              const std::vector<nic::GidEntry>& table);

/// Returns the network device of a RoCE port, by its GIDs, or else by the PCI function; empty = not
/// found.
[[nodiscard]] std::string port_netdev(const Machine& machine, const NicPort& port);

}  // namespace gshmem::info

#include "host/tools/doctor/ports.h"

#include "host/base/files.h"

namespace gshmem::info {

namespace fs = std::filesystem;

std::vector<NicPort> rdma_ports(const Machine& machine) {
  return nic_ports(machine.at("/sys").string());
}

fs::path port_folder(const Machine& machine, const NicPort& port) {
  return machine.at("/sys/class/infiniband") / port.device / "ports" / std::to_string(port.port);
}

std::string port_name(const NicPort& port) {
  return port.device + " port " + std::to_string(port.port);
}

std::vector<nic::GidEntry> gids(const Machine& machine, const NicPort& port) {
  return nic::read_gids(machine.at("/sys").string(), port.device, port.port);
}

const nic::GidEntry* chosen_gid(const Machine& machine, const NicPort& port,
                                const std::vector<nic::GidEntry>& table) {
  return nic::find_gid(table,
                       is_ethernet(port) ? nic::LinkLayer::kEthernet : nic::LinkLayer::kInfiniBand,
                       machine.config.ib_gid_index);
}

std::string port_netdev(const Machine& machine, const NicPort& port) {
  for (const nic::GidEntry& gid : gids(machine, port)) {
    if (!gid.netdev.empty()) return gid.netdev;
  }
  const std::vector<std::string> names =
      names_in(machine.at("/sys/class/infiniband") / port.device / "device" / "net");
  return names.empty() ? "" : names.front();
}

}  // namespace gshmem::info

// GPUs, NICs and the PCI bridges between them, from the paths of sysfs. Included by checks.
#pragma once

#include "host/info/doctor/machine.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gshmem::info {

/// A PCI function. `path` is empty when sysfs does not show it (some containers).
struct PciDevice {
  std::string name;                 ///< for people: "GPU 0 (0000:1b:00.0)"
  std::string address;              ///< "0000:1b:00.0"
  std::string host_bridge{};        ///< "pci0000:17"
  std::vector<std::string> path{};  ///< the bridges above it, outermost first, and itself
};

/// The GPUs that CUDA lists; where it does not answer, NVIDIA display controllers on the bus.
[[nodiscard]] std::vector<PciDevice> gpus(const Machine& machine);
/// RDMA devices that are PCI functions; others (soft-RoCE) have an empty path.
[[nodiscard]] std::vector<PciDevice> nics(const Machine& machine);
/// Names of the RDMA devices whose driver is mlx5_core.
[[nodiscard]] std::vector<std::string> mlx5_devices(const Machine& machine);
[[nodiscard]] bool has_rdma_device(const Machine& machine);

[[nodiscard]] std::filesystem::path pci_folder(const Machine& machine, const std::string& address);
/// A file of the device's folder that holds a number; -1 when it does not.
[[nodiscard]] int pci_number(const Machine& machine, const std::string& address, const char* file);

/// The names of `nvidia-smi topo -m`.
enum class Distance {
  kPix,   ///< at most one PCI switch
  kPxb,   ///< several switches under one root port
  kPhb,   ///< through one host bridge
  kNode,  ///< through two host bridges of one NUMA node
  kSys,   ///< through the link between NUMA nodes
};
[[nodiscard]] const char* distance_name(Distance distance);
/// Both paths must be known.
[[nodiscard]] Distance distance_between(const Machine& machine, const PciDevice& a,
                                        const PciDevice& b);
/// Bridges that traffic between the two enters below the one that they share; none when they share
/// none, because then it goes through the host bridge anyway.
[[nodiscard]] std::vector<std::string> bridges_between(const PciDevice& a, const PciDevice& b);

}  // namespace gshmem::info

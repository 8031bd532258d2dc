// GPUs and NICs of a machine. Distances and the bridges between them are those by which a NIC is
// chosen (transport/nic/pci_distance.h). Included by checks.
#pragma once

#include "host/tools/doctor/machine.h"
#include "transport/nic/pci_distance.h"

#include <filesystem>
#include <string>
#include <vector>

namespace gshmem::info {

/// A PCI function with its position, which is empty when sysfs does not show it (some containers).
struct PciDevice : nic::PciPlace {
  std::string name{};     ///< for people: "GPU 0 (0000:1b:00.0)"
  std::string address{};  ///< "0000:1b:00.0"
};
using nic::bridges_between;
using nic::Distance;
using nic::distance_between;
using nic::distance_name;

/// Returns the GPUs that CUDA lists; if it does not answer, the NVIDIA display controllers on the
/// bus.
[[nodiscard]] std::vector<PciDevice> gpus(const Machine& machine);
/// Returns the RDMA devices that are PCI functions; others (soft-RoCE) have an empty path.
[[nodiscard]] std::vector<PciDevice> nics(const Machine& machine);
/// Returns the names of the RDMA devices whose driver is mlx5_core.
[[nodiscard]] std::vector<std::string> mlx5_devices(const Machine& machine);
[[nodiscard]] bool has_rdma_device(const Machine& machine);

[[nodiscard]] std::filesystem::path pci_folder(const Machine& machine, const std::string& address);
/// Returns the number in a file of the device's folder; -1 when there is none.
[[nodiscard]] int pci_number(const Machine& machine, const std::string& address, const char* file);

}  // namespace gshmem::info

// Computes the distance of a NIC from a GPU, from the paths of sysfs. Included by code that chooses
// a NIC (mlx5) and by gshmem-info --doctor, which reports the choice. The functions depend only on
// a tree of files, for which tests have doubles. Invariant: facts that sysfs does not show (a
// device in software, a container without /sys) are "unknown", never an error.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gshmem::nic {

/// The names of `nvidia-smi topo -m`, near to far. All devices of kUnknown distance count as equal.
enum class Distance {
  kPix,   ///< at most one PCI switch
  kPxb,   ///< several switches under one root port
  kPhb,   ///< through one host bridge
  kNode,  ///< through two host bridges of one NUMA node
  kSys,   ///< through the link between NUMA nodes
  kUnknown,
};
[[nodiscard]] const char* distance_name(Distance distance) noexcept;

/// The position of a PCI function. `path` is empty if the device is not a PCI function, or sysfs
/// does not show it.
struct PciPlace {
  std::string host_bridge{};  ///< "pci0000:17"
  /// The bridges above the function, outermost first, and the function.
  std::vector<std::string> path{};
  int numa_node = -1;
};
/// Returns the position from a real path: "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0". It
/// has no NUMA node.
[[nodiscard]] PciPlace place_of_path(const std::filesystem::path& path);
/// Returns the position from a device's folder or a link to it.
[[nodiscard]] PciPlace pci_place(const std::filesystem::path& device);

[[nodiscard]] Distance distance_between(const PciPlace& a, const PciPlace& b);
/// Returns the distance of two PCI functions by their addresses.
[[nodiscard]] Distance function_distance(const std::string& sysfs, const std::string& pci,
                                         const std::string& gpu_pci);
/// Returns the distance of an RDMA device by its name and a GPU by its PCI address; `sysfs` is
/// "/sys".
[[nodiscard]] Distance device_distance(const std::string& sysfs, const std::string& device,
                                       const std::string& gpu_pci);
/// Returns the bridges that traffic between the two passes below the one that they share. Returns
/// none when they share none, because then it passes the host bridge anyway.
[[nodiscard]] std::vector<std::string> bridges_between(const PciPlace& a, const PciPlace& b);

/// Returns the address in the spelling of sysfs; cuDeviceGetPCIBusId has capitals.
[[nodiscard]] std::string sysfs_pci_address(std::string address);

struct Candidate {
  std::string device;
  int port = 1;
  Distance distance = Distance::kUnknown;
  double gbits = 0;  ///< per second; 0 = unknown
};
/// Returns the indices of the candidates for the PE with `local_rank`: at most `count`, the nearest
/// first, and of equally near ones the fastest. Of equal candidates, in order of name and port,
/// consecutive ranks get different ones. When ranks share the same candidates again, each has
/// another one first. Empty when there are none.
[[nodiscard]] std::vector<int> choose_devices(const std::vector<Candidate>& candidates,
                                              int local_rank, int count);

}  // namespace gshmem::nic

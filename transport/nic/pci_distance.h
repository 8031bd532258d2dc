// How far a NIC is from a GPU, from the paths of sysfs. Included by what chooses a NIC (mlx5) and
// by gshmem-info --doctor, which says what will be chosen. Pure functions over a tree of files,
// which tests fake. Invariant: what sysfs does not show (a device in software, a container without
// /sys) is "unknown", never an error.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gshmem::nic {

/// The names of `nvidia-smi topo -m`, near to far. kUnknown is as good as any of a kind.
enum class Distance {
  kPix,   ///< at most one PCI switch
  kPxb,   ///< several switches under one root port
  kPhb,   ///< through one host bridge
  kNode,  ///< through two host bridges of one NUMA node
  kSys,   ///< through the link between NUMA nodes
  kUnknown,
};
[[nodiscard]] const char* distance_name(Distance distance) noexcept;

/// Where a PCI function sits. `path` is empty for what is none, and where sysfs does not show it.
struct PciPlace {
  std::string host_bridge{};        ///< "pci0000:17"
  std::vector<std::string> path{};  ///< the bridges above it, outermost first, and itself
  int numa_node = -1;
};
/// The place of a real path: "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0". Without its NUMA
/// node.
[[nodiscard]] PciPlace place_of_path(const std::filesystem::path& path);
/// The place of a device's folder or of a link to it.
[[nodiscard]] PciPlace pci_place(const std::filesystem::path& device);

[[nodiscard]] Distance distance_between(const PciPlace& a, const PciPlace& b);
/// Distance of two PCI functions by their addresses.
[[nodiscard]] Distance function_distance(const std::string& sysfs, const std::string& pci,
                                         const std::string& gpu_pci);
/// Distance of an RDMA device by its name and a GPU by its PCI address; `sysfs` is "/sys".
[[nodiscard]] Distance device_distance(const std::string& sysfs, const std::string& device,
                                       const std::string& gpu_pci);
/// Bridges that traffic between the two enters below the one that they share; none when they share
/// none, because then it goes through the host bridge anyway.
[[nodiscard]] std::vector<std::string> bridges_between(const PciPlace& a, const PciPlace& b);

/// The address as sysfs writes it; cuDeviceGetPCIBusId has capitals.
[[nodiscard]] std::string sysfs_pci_address(std::string address);

struct Candidate {
  std::string device;
  int port = 1;
  Distance distance = Distance::kUnknown;
  double gbits = 0;  ///< a second; 0 = unknown
};
/// Indices of the candidates for the PE with `local_rank`, at most `count`, the nearest first, of
/// equally near ones the fastest. Of equal ones, in order of name and port, each rank in turn gets
/// others. Where they come to the same ones again, each gets another one of them first. Empty when
/// there are none.
[[nodiscard]] std::vector<int> choose_devices(const std::vector<Candidate>& candidates,
                                              int local_rank, int count);

}  // namespace gshmem::nic

// Which RDMA device, port, GID and partition key a PE uses. Pure functions over a sysfs tree and
// over what the device reports; device.cpp gives them the real ones, tests give them fake ones.
// Invariant: what sysfs does not show (a device in software, a container without /sys) is
// "unknown", never an error.
#pragma once

#include "host/base/error.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace gshmem::nic::mlx5 {

/// Between two PCI devices, near to far: behind one switch, several switches, one host bridge, one
/// NUMA node, anywhere. kUnknown is as good as any of a kind.
enum class Distance { kPix, kPxb, kPhb, kNode, kSys, kUnknown };
[[nodiscard]] const char* distance_name(Distance distance) noexcept;

/// Of two real paths below /sys/devices ("/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"), kSys
/// when they share no host bridge.
[[nodiscard]] Distance pci_distance(const std::string& nic_path, const std::string& gpu_path);
/// The same for a device by its name and a GPU by its PCI address, with NUMA nodes; `sysfs` is
/// "/sys".
[[nodiscard]] Distance device_distance(const std::string& sysfs, const std::string& device,
                                       const std::string& gpu_pci);

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

struct Candidate {
  std::string device;
  int port = 1;
  Distance distance = Distance::kUnknown;
};
/// Index of the candidate for the PE with `local_rank`: of the nearest ones, in order of name and
/// port, a different one for each rank in turn. -1 when there are none.
[[nodiscard]] int choose_device(const std::vector<Candidate>& candidates, int local_rank);

enum class GidKind { kUnknown, kInfiniBand, kRoceV1, kRoceV2 };
using Gid = std::array<std::uint8_t, 16>;
struct GidEntry {
  int index = 0;
  Gid gid{};
  GidKind kind = GidKind::kUnknown;
};
/// Entries of a port's table that are not empty, from ports/N/gids and ports/N/gid_attrs/types.
[[nodiscard]] std::vector<GidEntry> read_gids(const std::string& sysfs, const std::string& device,
                                              int port);
[[nodiscard]] bool gid_is_ipv4(const Gid& gid) noexcept;
[[nodiscard]] std::string gid_text(const Gid& gid);

enum class LinkLayer : std::uint8_t { kInfiniBand = 1, kEthernet = 2 };  // IBV_LINK_LAYER_*
[[nodiscard]] const char* link_layer_name(LinkLayer layer) noexcept;
/// `wanted` is GSHMEM_IB_GID_INDEX; -1 chooses: on Ethernet RoCE v2 before v1, IPv4 before IPv6
/// before link-local; on InfiniBand the first. Errors: GSHMEMX_ERROR_CONFIG when the wanted one is
/// empty, GSHMEMX_ERROR_NIC when an Ethernet port has none (no IP address on its interface).
[[nodiscard]] GidEntry choose_gid(const std::vector<GidEntry>& entries, LinkLayer layer, int wanted,
                                  const std::string& device);

}  // namespace gshmem::nic::mlx5

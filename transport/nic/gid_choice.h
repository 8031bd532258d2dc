// The GID table of a port, and which entry is used. Included by what sets up queues (mlx5) and by
// gshmem-info --doctor, which says what will be used. Pure functions over a sysfs tree, which tests
// fake. Invariant: what sysfs does not show reads as unknown, never as an error.
#pragma once

#include "host/base/error.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace gshmem::nic {

/// On Ethernet the best first.
enum class GidKind { kRoceV2, kUnknown, kRoceV1, kInfiniBand };
using Gid = std::array<std::uint8_t, 16>;
struct GidEntry {
  int index = 0;
  Gid gid{};
  GidKind kind = GidKind::kUnknown;
  std::string netdev{};   ///< network device it belongs to; empty on InfiniBand, or unknown
  bool reachable = true;  ///< not so where that device is in another network namespace
};
/// Entries of a port's table that are not empty, by index, from ports/N/gids and ports/N/gid_attrs.
[[nodiscard]] std::vector<GidEntry> read_gids(const std::string& sysfs, const std::string& device,
                                              int port);
[[nodiscard]] bool gid_is_ipv4(const Gid& gid) noexcept;
[[nodiscard]] bool gid_is_link_local(const Gid& gid) noexcept;
/// "::ffff:10.0.0.1", "fe80:0000:...".
[[nodiscard]] std::string gid_text(const Gid& gid);
/// For people: "10.0.0.1", "fe80:0000:...".
[[nodiscard]] std::string gid_address(const Gid& gid);

enum class LinkLayer : std::uint8_t { kInfiniBand = 1, kEthernet = 2 };  // IBV_LINK_LAYER_*
[[nodiscard]] const char* link_layer_name(LinkLayer layer) noexcept;

/// The rule of GSHMEM_IB_GID_INDEX: `wanted` itself; -1 chooses, on Ethernet those of this network
/// namespace, RoCE v2 before v1, IPv4 before IPv6 before link-local, on InfiniBand the first. Null
/// when there is none.
[[nodiscard]] const GidEntry* find_gid(const std::vector<GidEntry>& entries, LinkLayer layer,
                                       int wanted);
/// Text about an Ethernet port without any GID, after its name.
inline constexpr const char* kNoGid =
    "has no GID: give its network interface an IP address (ip addr), or bring the interface up; "
    "representors have none";
/// The GID of `device`, as find_gid. It needs one, except on InfiniBand. Errors:
/// GSHMEMX_ERROR_CONFIG when the wanted one is empty, GSHMEMX_ERROR_NIC when an Ethernet port has
/// none (no IP address on its interface).
[[nodiscard]] GidEntry choose_gid(const std::vector<GidEntry>& entries, LinkLayer layer, int wanted,
                                  const std::string& device);

}  // namespace gshmem::nic

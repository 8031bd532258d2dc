// Reads the GID table of a port, and chooses the entry to use. Included by code that creates queues
// (mlx5) and by gshmem-info --doctor, which reports the choice. The functions depend only on a
// sysfs tree, for which tests have doubles. Invariant: facts that sysfs does not show read as
// unknown, never as an error.
#pragma once

#include "host/base/error.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace gshmem::nic {

/// On Ethernet the best kind comes first.
enum class GidKind { kRoceV2, kUnknown, kRoceV1, kInfiniBand };
using Gid = std::array<std::uint8_t, 16>;
struct GidEntry {
  int index = 0;
  Gid gid{};
  GidKind kind = GidKind::kUnknown;
  std::string netdev{};   ///< network device it belongs to; empty on InfiniBand, or unknown
  bool reachable = true;  ///< not so where that device is in another network namespace
};
/// Returns the entries of a port's table that are not empty, by index, from ports/N/gids and
/// ports/N/gid_attrs.
[[nodiscard]] std::vector<GidEntry> read_gids(const std::string& sysfs, const std::string& device,
                                              int port);
[[nodiscard]] bool gid_is_ipv4(const Gid& gid) noexcept;
[[nodiscard]] bool gid_is_link_local(const Gid& gid) noexcept;
/// Returns for example "::ffff:10.0.0.1", "fe80:0000:...".
[[nodiscard]] std::string gid_text(const Gid& gid);
/// Returns a text for people: "10.0.0.1", "fe80:0000:...".
[[nodiscard]] std::string gid_address(const Gid& gid);

enum class LinkLayer : std::uint8_t { kInfiniBand = 1, kEthernet = 2 };  // IBV_LINK_LAYER_*
[[nodiscard]] const char* link_layer_name(LinkLayer layer) noexcept;

/// Implements GSHMEM_IB_GID_INDEX. `wanted` selects an entry; -1 chooses. On Ethernet it chooses an
/// entry of this network namespace, and prefers RoCE v2 to v1, and IPv4 to IPv6 to link-local. On
/// InfiniBand it chooses the first. Returns null when there is none.
[[nodiscard]] const GidEntry* find_gid(const std::vector<GidEntry>& entries, LinkLayer layer,
                                       int wanted);
/// An explanation that follows the name of an Ethernet port without a GID.
inline constexpr const char* kNoGid =
    "has no GID: give its network interface an IP address (ip addr), or bring the interface up; "
    "representors have none";
/// Returns the GID of `device` by find_gid. One is required, except on InfiniBand. Errors:
/// GSHMEMX_ERROR_CONFIG when the wanted entry is empty, GSHMEMX_ERROR_NIC when an Ethernet port has
/// no GID (no IP address on its interface).
[[nodiscard]] GidEntry choose_gid(const std::vector<GidEntry>& entries, LinkLayer layer, int wanted,
                                  const std::string& device);

}  // namespace gshmem::nic

// The kind of card that a device models, and of its host: GSHNIC_PROFILE.
//
//   profiles = profile { ";" profile }   of the devices in turn; the last one is that of the others
//   profile  = item { "," item }
//   item     = "ib"                      InfiniBand port, the default
//            | "roce"                    Ethernet port with IPv6 and IPv4 addresses
//            | "roce6"                   the same without IPv4
//            | "down=" 0 to 31           the interface of that GID is down: it reaches nobody
//            | "mtu=" 256 to 4096        the port's MTU, a power of two
//            | "page=" ("4k" | "64k")    page size of the host
//            | "no_record"               queue pairs may work without a doorbell record
#pragma once

#include "transport/softnic/engine.h"
#include "transport/softnic/route.h"

#include <string_view>
#include <vector>

namespace gshmem::soft {

/// Returns at least one profile. Errors: EngineError 0x3, which quotes the bad part and says what
/// is accepted.
[[nodiscard]] std::vector<Profile> parse_profiles(std::string_view text);

/// Returns the locally administered MAC address of the n-th device of a host, the same in all of
/// its processes. Returns 0 on InfiniBand, where a LID is the address.
[[nodiscard]] std::uint64_t mac_of(const Profile& profile, int device);
/// Returns the GID table of the n-th device of a host with an Ethernet port.
[[nodiscard]] std::vector<GidAttributes> roce_gids(const Profile& profile, int device);
/// Returns the port of a device, which on InfiniBand has that LID.
[[nodiscard]] Port port_of(const Profile& profile, int device, std::uint16_t lid);
/// Returns a locally administered EUI-64 (bit 1 of the first byte), which belongs to no vendor.
[[nodiscard]] constexpr std::uint64_t guid_of(std::uint16_t lid) {
  return 0x0253'4e49'4300'0000 | lid;
}

}  // namespace gshmem::soft

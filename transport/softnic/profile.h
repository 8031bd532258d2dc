// The kind of card that a device is, and of the host that it is in: GSHNIC_PROFILE.
//
//   profiles = profile { ";" profile }   of the devices in turn; the last one is that of the others
//   profile  = item { "," item }
//   item     = "ib"                      InfiniBand port, the default
//            | "roce"                    Ethernet port with IPv6 and IPv4 addresses
//            | "roce6"                   the same without IPv4
//            | "down=" 0 to 31           the interface of that GID is down: it reaches nobody
//            | "mtu=" 256 to 4096        the port's MTU, a power of two
//            | "page=" ("4k" | "64k")    page size of the host
//            | "no_record"               queue pairs may do without a doorbell record
#pragma once

#include "transport/softnic/engine.h"
#include "transport/softnic/route.h"

#include <string_view>
#include <vector>

namespace gshmem::soft {

/// At least one. Errors: EngineError 0x3 that quotes the bad part and says what is accepted.
[[nodiscard]] std::vector<Profile> parse_profiles(std::string_view text);

/// Locally administered MAC address of the n-th device of a host, the same in all of its processes;
/// 0 on InfiniBand, where a LID is the address.
[[nodiscard]] std::uint64_t mac_of(const Profile& profile, int device);
/// The GID table of the n-th device of a host with an Ethernet port.
[[nodiscard]] std::vector<GidAttributes> roce_gids(const Profile& profile, int device);
/// Its port, which on InfiniBand has that LID.
[[nodiscard]] Port port_of(const Profile& profile, int device, std::uint16_t lid);
/// Locally administered EUI-64 (bit 1 of the first byte), no vendor's.
[[nodiscard]] constexpr std::uint64_t guid_of(std::uint16_t lid) {
  return 0x0253'4e49'4300'0000 | lid;
}

}  // namespace gshmem::soft

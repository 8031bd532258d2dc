#include "transport/softnic/profile.h"

#include "transport/softnic/parts.h"

#include <bit>
#include <cstring>

namespace gshmem::soft {
namespace {

[[noreturn]] void bad(std::string_view part, const char* expected) {
  bad_part("GSHNIC_PROFILE", part, expected);
}

std::uint32_t parse_mtu(std::string_view item, std::string_view value) {
  const std::uint32_t mtu = number_of<std::uint32_t>(value).value_or(0);
  const bool good = mtu >= 256 && mtu <= 4096 && std::has_single_bit(mtu);
  if (!good) bad(item, "mtu=256, 512, 1024, 2048 or 4096");
  return mtu;
}

void parse_item(Profile& profile, std::string_view item) {
  if (item == "ib") {
    profile.link = Profile::Link::kInfiniBand;
  } else if (item == "roce") {
    profile.link = Profile::Link::kEthernet;
  } else if (item == "roce6") {
    profile.link = Profile::Link::kEthernet;
    profile.ipv4 = false;
  } else if (item.substr(0, 5) == "down=") {
    const std::uint32_t index = number_of<std::uint32_t>(item.substr(5)).value_or(32);
    if (index > 31) bad(item, "down=0 to 31");
    profile.gids_down |= 1u << index;
  } else if (item.substr(0, 4) == "mtu=") {
    profile.mtu = parse_mtu(item, item.substr(4));
  } else if (item == "page=4k") {
    profile.page_bytes = 4096;
  } else if (item == "page=64k") {
    profile.page_bytes = 65536;
  } else if (item == "no_record") {
    profile.no_record = true;
  } else {
    bad(item, "ib, roce, roce6, down=, mtu=, page=4k, page=64k or no_record");
  }
}

}  // namespace

std::vector<Profile> parse_profiles(std::string_view text) {
  std::vector<Profile> profiles;
  for_each_part(text, ";", [&](std::string_view one) {
    Profile profile;
    for_each_part(one, ",", [&](std::string_view item) {
      if (!item.empty()) parse_item(profile, item);
    });
    profiles.push_back(profile);
  });
  return profiles;
}

std::uint64_t mac_of(const Profile& profile, int device) {
  if (profile.link == Profile::Link::kInfiniBand) return 0;
  // Bit 1 of the first byte: given by nobody but this host.
  return 0x024e'4943'0000 | static_cast<std::uint64_t>(device);
}

std::vector<GidAttributes> roce_gids(const Profile& profile, int device) {
  const std::uint64_t mac = mac_of(profile, device);
  // Link-local, and the interface identifier of RFC 4291, appendix A.
  GidAttributes local{{0xfe, 0x80}, GidAttributes::Kind::kRoceV1};
  for (std::size_t i = 0; i < 3; ++i) {
    local.bytes[8 + i] = static_cast<std::uint8_t>(mac >> (40 - 8 * i));
    local.bytes[13 + i] = static_cast<std::uint8_t>(mac >> (16 - 8 * i));
  }
  local.bytes[8] ^= 2;
  local.bytes[11] = 0xff, local.bytes[12] = 0xfe;
  // ::ffff:10.0.0.n, RFC 4291 section 2.5.5.2.
  GidAttributes mapped{{}, GidAttributes::Kind::kRoceV1};
  const std::uint8_t address[] = {0xff, 0xff, 10, 0, 0, static_cast<std::uint8_t>(device + 1)};
  std::memcpy(mapped.bytes.data() + 10, address, sizeof address);
  std::vector<GidAttributes> gids;
  // In the order of Linux drivers/infiniband/core/roce_gid_mgmt.c: both versions of each address.
  for (const GidAttributes& one : {local, mapped}) {
    gids.push_back(one);
    gids.push_back({one.bytes, GidAttributes::Kind::kRoceV2});
  }
  if (!profile.ipv4) gids.resize(2);
  return gids;
}

Port port_of(const Profile& profile, int device, std::uint16_t lid) {
  if (profile.link == Profile::Link::kEthernet)
    return {.mac = mac_of(profile, device), .gids = roce_gids(profile, device)};
  // InfiniBand 4.1.1: the default GID is the link-local prefix and the GUID.
  GidAttributes gid{{0xfe, 0x80}, GidAttributes::Kind::kInfiniBand};
  for (std::size_t i = 0; i < 8; ++i)
    gid.bytes[8 + i] = static_cast<std::uint8_t>(guid_of(lid) >> (56 - 8 * i));
  return {.lid = lid, .gids = {gid}};
}

}  // namespace gshmem::soft

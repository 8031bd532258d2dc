#include "transport/softnic/route.h"

#include <algorithm>

namespace gshmem::soft {
namespace {

/// Is it an IPv4 address that is mapped to IPv6 (RFC 4291, section 2.5.5.2)?
bool is_ipv4(const Gid& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

}  // namespace

std::optional<Addresses> addresses_of(const Port& port, const Route& route) {
  Addresses out{.destination = route.gid,
                .mac = route.mac,
                .source_mac = port.mac,
                .lid = route.lid,
                .source_lid = port.lid,
                .hop_limit = route.hop_limit};
  out.global = route.global || port.ethernet();
  if (!out.global) return out;
  if (route.gid_index >= port.gids.size()) return std::nullopt;
  const GidAttributes& own = port.gids[route.gid_index];
  out.source = own.bytes;
  out.kind = own.kind;
  if (own.kind == GidAttributes::Kind::kRoceV2) out.udp_source = route.udp_source;
  return out;
}

Route route_of(const nic::AddressVector& vector) {
  return {.lid = vector.lid,
          .mac = vector.mac,
          .global = vector.global,
          .gid_index = vector.gid_index,
          .gid = vector.gid,
          .hop_limit = vector.hop_limit,
          .udp_source = vector.lid};
}

const char* refusal_of(const Port& port, const Addresses& packet) {
  using Kind = GidAttributes::Kind;
  if ((packet.kind != Kind::kInfiniBand) != port.ethernet()) return "of another kind of network";
  if (port.ethernet() && packet.mac != port.mac) return "for another MAC address";
  if (!port.ethernet() && packet.lid != 0 && packet.lid != port.lid) return "for another LID";
  if (!packet.global) return nullptr;
  const bool own = std::ranges::any_of(port.gids, [&](const GidAttributes& gid) {
    return gid.bytes == packet.destination && gid.kind == packet.kind;
  });
  if (!own) return "for a GID that the port does not have, or has for another version of RoCE";
  if (packet.kind != Kind::kRoceV2) return nullptr;
  // RFC 791 and RFC 8200 for the first, RFC 768 for the second: no sender, so no answer.
  if (packet.hop_limit == 0) return "with hop limit 0";
  return packet.udp_source == 0 ? "with UDP source port 0" : nullptr;
}

const char* refusal_of(const Port& port, const Route& route, const Addresses& packet) {
  if (const char* why = refusal_of(port, packet)) return why;
  const std::optional<Addresses> back = addresses_of(port, route);
  if (!back || back->global != packet.global) return "with or without GIDs, unlike its queue pair";
  if (!packet.global) return nullptr;
  const bool same = back->kind == packet.kind && back->source == packet.destination &&
                    back->destination == packet.source;
  return same ? nullptr : "from or for a GID that its queue pair is not connected by";
}

std::uint8_t packet_type_of(const Addresses& addresses) {
  if (addresses.kind != GidAttributes::Kind::kRoceV2) return 0;
  return is_ipv4(addresses.destination) ? 8 | 2 : 8 | 1;
}

GrhBytes grh_of(const Addresses& addresses, const GlobalHeader& rest) {
  GrhBytes out{};
  const auto put16 = [&](std::size_t at, std::uint32_t value) {
    out[at] = static_cast<std::uint8_t>(value >> 8);
    out[at + 1] = static_cast<std::uint8_t>(value);
  };
  constexpr std::uint8_t kUdp = 17, kInfiniBandTransport = 0x1b;
  constexpr std::uint32_t kTransportBytes = 12 + 8 + 4, kUdpBytes = 8;  // BTH, DETH, ICRC
  const bool udp = addresses.kind == GidAttributes::Kind::kRoceV2;
  const std::uint32_t payload = rest.payload_bytes + kTransportBytes + (udp ? kUdpBytes : 0);
  if (udp && is_ipv4(addresses.destination)) {
    constexpr std::size_t kIp = 20;
    out[kIp] = 0x45;
    out[kIp + 1] = rest.traffic_class;
    put16(kIp + 2, kIp + payload);
    out[kIp + 8] = addresses.hop_limit;
    out[kIp + 9] = kUdp;
    std::copy_n(addresses.source.begin() + 12, 4, out.begin() + kIp + 12);
    std::copy_n(addresses.destination.begin() + 12, 4, out.begin() + kIp + 16);
    return out;
  }
  out[0] = static_cast<std::uint8_t>(0x60 | rest.traffic_class >> 4);
  out[1] = static_cast<std::uint8_t>(std::uint32_t{rest.traffic_class} << 4 |
                                     (rest.flow_label >> 16 & 0xf));
  put16(2, rest.flow_label);
  put16(4, payload);
  out[6] = udp ? kUdp : kInfiniBandTransport;
  out[7] = addresses.hop_limit;
  std::ranges::copy(addresses.source, out.begin() + 8);
  std::ranges::copy(addresses.destination, out.begin() + 24);
  return out;
}

}  // namespace gshmem::soft

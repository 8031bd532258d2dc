// Addresses of packets: those that a card writes into headers, and those that a port accepts.
// Included by packet.h, the requester, the responder and the engine. Invariant: addresses do not
// choose the node to which a packet goes. Its queue pair number does, and a port only drops packets
// that are not for it.
#pragma once

#include "transport/nic/decode.h"
#include "transport/softnic/engine.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace gshmem::soft {

/// A port of this process, by which packets arrive and leave.
struct Port {
  std::uint64_t mac = 0;  ///< on Ethernet
  std::uint16_t lid = 0;  ///< on InfiniBand
  std::vector<GidAttributes> gids;

  [[nodiscard]] bool ethernet() const { return mac != 0; }
};

/// Fields of the headers: Ethernet or LRH, IP or GRH, and UDP.
struct Addresses {
  Gid source{}, destination{};  ///< where there are GIDs
  std::uint64_t mac = 0, source_mac = 0;
  std::uint16_t lid = 0, source_lid = 0;
  std::uint16_t udp_source = 0;  ///< of RoCE v2
  std::uint8_t hop_limit = 0;
  GidAttributes::Kind kind = GidAttributes::Kind::kInfiniBand;
  bool global = false;  ///< there is a GRH, or an IP header
};

/// Returns the addresses of packets that leave by a route. Returns nothing where the table has no
/// such GID.
[[nodiscard]] std::optional<Addresses> addresses_of(const Port& port, const Route& route);

/// Returns the route of a datagram or of an initiator's entry.
[[nodiscard]] Route route_of(const nic::AddressVector& vector);

/// Returns why a port drops a packet with these addresses, or null.
[[nodiscard]] const char* refusal_of(const Port& port, const Addresses& packet);
/// Returns why a queue pair that is connected by `route` drops the packet, or null. It accepts only
/// packets from that address (InfiniBand 9.6.1.2.3).
[[nodiscard]] const char* refusal_of(const Port& port, const Route& route, const Addresses& packet);

/// Fields of a GRH or an IP header that are not addresses.
struct GlobalHeader {
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0, payload_bytes = 0;
};
/// The first bytes of a datagram's buffer: its GRH, or its IPv4 header, which is shorter and is
/// stored at their end (InfiniBand 8.3, and annex A17.4.5.2 for RoCE v2).
using GrhBytes = std::array<std::uint8_t, 40>;
/// Returns the four bits of a completion that say on Ethernet which header there is (UCX
/// ib_mlx5.inl, by the programmer's reference manual): 8 for UDP, and 1 for IPv6 or 2 for IPv4.
[[nodiscard]] std::uint8_t packet_type_of(const Addresses& addresses);
[[nodiscard]] GrhBytes grh_of(const Addresses& addresses, const GlobalHeader& rest);

}  // namespace gshmem::soft

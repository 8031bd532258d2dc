#include "transport/softnic/route.h"

#include <algorithm>

namespace gshmem::soft {

std::optional<Addresses> addresses_of(const Port& port, const Route& route) {
  Addresses out{.destination = route.gid,
                .mac = route.mac,
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

}  // namespace gshmem::soft

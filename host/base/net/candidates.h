// Chooses the addresses by which a host is best reached from other hosts. Some addresses are valid
// on their own host only (loopback, bridges of containers, a network of two hosts of three) and
// look like any other there. So hosts compare their addresses. Included by unique ids and by the
// links between hosts. Pure.
#pragma once

#include "host/base/config.h"
#include "host/base/net/interfaces.h"

#include <array>
#include <vector>

namespace gshmem::net {

/// The properties of an address that other hosts need to judge it. It is sent as it is in memory.
struct Candidate {
  Endpoint::Family family = Endpoint::Family::kIpv4;
  std::uint8_t prefix_bits = 0;
  bool wanted = false;  ///< GSHMEM_UID_INTERFACE and GSHMEM_UID_FAMILY accept it
  bool valid = false;
  std::array<std::uint8_t, 16> ip{};
  friend bool operator==(const Candidate&, const Candidate&) = default;
};
constexpr std::size_t kMaxCandidates = 8;
using Candidates = std::array<Candidate, kMaxCandidates>;

/// Returns the wanted addresses first, then the rest, each in the order of fitting_interfaces.
[[nodiscard]] Candidates candidates_of(const std::vector<Interface>& interfaces,
                                       const Config& config);

/// Returns the addresses of host `node`, best first. Wanted addresses come before others. Within
/// those the order is: networks on which every host has an address of its own, in the order of the
/// first host; networks that some hosts lack; addresses that another host has, too (loopback,
/// docker0). `hosts` is indexed by node.
[[nodiscard]] std::vector<Candidate> order_addresses(const std::vector<Candidates>& hosts,
                                                     int node);

}  // namespace gshmem::net

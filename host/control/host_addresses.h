// By which of its addresses a PE is best reached from the other hosts. An address that means
// something on its own host only (loopback, bridges of containers, a network of two hosts of three)
// looks like any other there: so the hosts compare what they have. Included by the plane, whose
// links between hosts follow it, as the network path does. The order is pure; only
// agree_on_addresses asks the system and the other PEs.
#pragma once

#include "host/base/collectives.h"
#include "host/base/config.h"
#include "host/base/net/interfaces.h"
#include "host/control/host_group.h"

#include <array>
#include <vector>

namespace gshmem::control {

/// Of an address, what other hosts need to judge it; travels as it is in memory.
struct Candidate {
  net::Endpoint::Family family = net::Endpoint::Family::kIpv4;
  std::uint8_t prefix_bits = 0;
  bool wanted = false;  ///< GSHMEM_UID_INTERFACE and GSHMEM_UID_FAMILY accept it
  bool valid = false;
  std::array<std::uint8_t, 16> ip{};
  friend bool operator==(const Candidate&, const Candidate&) = default;
};
constexpr std::size_t kMaxCandidates = 8;
using Candidates = std::array<Candidate, kMaxCandidates>;

/// The wanted ones first, then the rest, each in the order of net::fitting_interfaces.
[[nodiscard]] Candidates candidates_of(const std::vector<net::Interface>& interfaces,
                                       const Config& config);

/// Addresses of host `node`, best first. Wanted ones before others; of those, in this order:
/// networks on which every host has an address of its own, in the order of the first host; networks
/// that are not on all hosts; addresses that another host has too (loopback, docker0). `hosts`: by
/// node.
[[nodiscard]] std::vector<Candidate> order_addresses(const std::vector<Candidates>& hosts,
                                                     int node);

/// Collective in a job on several hosts, where `group` gets the names of the hosts. Own addresses,
/// best first, ports 0; not empty in such a job. Errors there, thrown after the collective:
/// GSHMEMX_ERROR_CONFIG when no interface fits.
[[nodiscard]] std::vector<net::Endpoint> agree_on_addresses(Collectives& ranks, HostGroup& group,
                                                            const Config& config);

}  // namespace gshmem::control

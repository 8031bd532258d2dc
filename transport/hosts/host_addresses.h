// By which of its addresses a PE is best reached from the other hosts. An address that means
// something on its own host only (loopback, bridges of containers, a network of two hosts of three)
// looks like any other there: so the hosts compare what they have. Included by the runtime, whose
// links between hosts and whose network path follow it. The order is pure; only agree_on_addresses
// asks the system and the other PEs.
#pragma once

#include "bootstrap/bootstrap.h"
#include "bootstrap/uid/interfaces.h"
#include "transport/p2p/host_group.h"

#include <vector>

namespace gshmem::hosts {

/// Of an address, what other hosts need to judge it; travels as it is in memory.
struct Candidate {
  bootstrap::Endpoint::Family family = bootstrap::Endpoint::Family::kIpv4;
  std::uint8_t prefix_bits = 0;
  bool wanted = false;  ///< GSHMEM_UID_INTERFACE and GSHMEM_UID_FAMILY accept it
  bool valid = false;
  std::array<std::uint8_t, 16> ip{};
  friend bool operator==(const Candidate&, const Candidate&) = default;
};
constexpr std::size_t kMaxCandidates = 8;
using Candidates = std::array<Candidate, kMaxCandidates>;

/// The wanted ones first, then the rest, each in the order of bootstrap::fitting_interfaces.
[[nodiscard]] Candidates candidates_of(const std::vector<bootstrap::Interface>& interfaces,
                                       const Config& config);

/// Addresses of host `node`, best first. Wanted ones before others; of those, in this order:
/// networks on which every host has an address of its own, in the order of the first host; networks
/// that are not on all hosts; addresses that another host has too (loopback, docker0). `hosts`: by
/// node.
[[nodiscard]] std::vector<Candidate> order_addresses(const std::vector<Candidates>& hosts,
                                                     int node);

/// Collective. Own addresses, best first, ports 0; not empty in a job on several hosts. Errors
/// there, thrown after the collective: GSHMEMX_ERROR_CONFIG when no interface fits.
[[nodiscard]] std::vector<bootstrap::Endpoint> agree_on_addresses(bootstrap::Bootstrap& boot,
                                                                  const p2p::HostGroup& group,
                                                                  const Config& config);

}  // namespace gshmem::hosts

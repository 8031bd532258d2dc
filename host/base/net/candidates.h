// By which of its addresses a host is best reached from others. An address that means something on
// its own host only (loopback, bridges of containers, a network of two hosts of three) looks like
// any other there: so hosts compare what they have. Included by unique ids and by the links between
// hosts. Pure.
#pragma once

#include "host/base/config.h"
#include "host/base/net/interfaces.h"

#include <array>
#include <vector>

namespace gshmem::net {

/// Of an address, what other hosts need to judge it; travels as it is in memory.
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

/// The wanted ones first, then the rest, each in the order of fitting_interfaces.
[[nodiscard]] Candidates candidates_of(const std::vector<Interface>& interfaces,
                                       const Config& config);

/// Addresses of host `node`, best first. Wanted ones before others; of those, in this order:
/// networks on which every host has an address of its own, in the order of the first host; networks
/// that are not on all hosts; addresses that another host has too (loopback, docker0). `hosts`: by
/// node.
[[nodiscard]] std::vector<Candidate> order_addresses(const std::vector<Candidates>& hosts,
                                                     int node);

}  // namespace gshmem::net

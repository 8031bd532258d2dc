// Which network interface's address goes into a unique id: GSHMEM_UID_INTERFACE and
// GSHMEM_UID_FAMILY. The choice is pure; only list_interfaces asks the system.
#pragma once

#include "host/base/config.h"
#include "host/base/net/socket.h"

namespace gshmem::net {

struct Interface {
  std::string name;
  Endpoint address;  ///< port 0
  bool up = false;
  bool loopback = false;
  int prefix_bits = 0;  ///< of the address, that its network has in common
};

/// One entry per interface and address, in the system's order.
[[nodiscard]] std::vector<Interface> list_interfaces();

/// `filter`: comma-separated prefixes of names; "=" in front makes them whole names, "^" excludes
/// them ("^=" both); empty takes all. Interfaces that are down and IPv6
/// link-local addresses never match. Of several, in this order: a real network before bridges of
/// virtual machines and containers, those before loopback; IPv4 before IPv6; the system's order.
/// Errors: GSHMEMX_ERROR_CONFIG that lists what there is.
[[nodiscard]] Endpoint choose_address(const std::vector<Interface>& interfaces,
                                      const std::string& filter, AddressFamily family);

/// "eth0 10.0.0.1, docker0 172.17.0.1, ib0 10.1.0.1 (down)".
[[nodiscard]] std::string interfaces_text(const std::vector<Interface>& interfaces);

/// All that fit, best first, by the rules of choose_address.
[[nodiscard]] std::vector<Interface> fitting_interfaces(const std::vector<Interface>& interfaces,
                                                        const std::string& filter,
                                                        AddressFamily family);

}  // namespace gshmem::net

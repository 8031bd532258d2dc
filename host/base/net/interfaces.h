// Chooses the network interface whose address goes into a unique id, by GSHMEM_UID_INTERFACE and
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
  int prefix_bits = 0;  ///< length of the network prefix in the address
};

/// Returns one entry per interface and address, in the system's order.
[[nodiscard]] std::vector<Interface> list_interfaces();

/// `filter` has comma-separated prefixes of names. A leading "=" makes them whole names, "^"
/// excludes them, "^=" does both; an empty filter accepts all. Interfaces that are down and IPv6
/// link-local addresses never match. Of several matches the order is: a real network before bridges
/// of virtual machines and containers, those before loopback; IPv4 before IPv6; the system's order.
/// Errors: GSHMEMX_ERROR_CONFIG with a list of the interfaces.
[[nodiscard]] Endpoint choose_address(const std::vector<Interface>& interfaces,
                                      const std::string& filter, AddressFamily family);

/// Returns for example "eth0 10.0.0.1, docker0 172.17.0.1, ib0 10.1.0.1 (down)".
[[nodiscard]] std::string interfaces_text(const std::vector<Interface>& interfaces);

/// Returns all matches, best first, by the rules of choose_address.
[[nodiscard]] std::vector<Interface> fitting_interfaces(const std::vector<Interface>& interfaces,
                                                        const std::string& filter,
                                                        AddressFamily family);

}  // namespace gshmem::net

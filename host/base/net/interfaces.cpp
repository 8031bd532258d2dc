#include "host/base/net/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>

namespace gshmem::net {
namespace {

class NameFilter {
 public:
  explicit NameFilter(std::string_view text) {
    exclude_ = consume(text, '^');
    exact_ = consume(text, '=');
    while (!text.empty()) {
      const std::size_t comma = std::min(text.find(','), text.size());
      if (comma > 0) words_.push_back(text.substr(0, comma));
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
  }
  [[nodiscard]] bool accepts(std::string_view name) const {
    if (words_.empty()) return true;
    const bool listed = std::ranges::any_of(words_, [&](std::string_view word) {
      return exact_ ? name == word : name.substr(0, word.size()) == word;
    });
    return listed != exclude_;
  }

 private:
  static bool consume(std::string_view& text, char sign) {
    if (text.empty() || text.front() != sign) return false;
    text.remove_prefix(1);
    return true;
  }
  bool exclude_ = false, exact_ = false;
  std::vector<std::string_view> words_;
};

/// Returns the rank of an interface; a lower one is better.
int rank_of(const Interface& interface) {
  int rank = interface.address.family == Endpoint::Family::kIpv4 ? 0 : 1;
  for (const char* bridge : {"docker", "virbr", "br-", "veth", "cni", "lxc"}) {
    if (interface.name.rfind(bridge, 0) == 0) rank += 2;
  }
  return interface.loopback ? rank + 4 : rank;
}

/// Returns 0 without a mask: then no other host is on that network.
int bits_of_mask(const sockaddr* mask) {
  const auto endpoint = endpoint_from(mask);
  if (!endpoint) return 0;
  int bits = 0;
  for (const std::uint8_t byte : endpoint->ip) bits += std::popcount(byte);
  return bits;
}

}  // namespace

std::string interfaces_text(const std::vector<Interface>& interfaces) {
  std::string text;
  for (const Interface& interface : interfaces) {
    text += (text.empty() ? "" : ", ") + interface.name + " " + address_text(interface.address) +
            (interface.up ? "" : " (down)");
  }
  return text.empty() ? "no interface at all" : text;
}

std::vector<Interface> list_interfaces() {
  ifaddrs* head = nullptr;
  check_errno(getifaddrs(&head), "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(head, freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = head; entry != nullptr; entry = entry->ifa_next) {
    const auto address = endpoint_from(entry->ifa_addr);
    if (!address) continue;
    interfaces.push_back({entry->ifa_name, *address, (entry->ifa_flags & IFF_UP) != 0,
                          (entry->ifa_flags & IFF_LOOPBACK) != 0,
                          bits_of_mask(entry->ifa_netmask)});
  }
  return interfaces;
}

std::vector<Interface> fitting_interfaces(const std::vector<Interface>& interfaces,
                                          const std::string& filter, AddressFamily family) {
  const NameFilter names(filter);
  std::multimap<int, Interface> ranked;  // interfaces of one rank keep their order
  for (const Interface& interface : interfaces) {
    const bool v4 = interface.address.family == Endpoint::Family::kIpv4;
    const bool family_fits =
        family == AddressFamily::kIpv4 ? v4 : family == AddressFamily::kAny || !v4;
    if (!interface.up || !family_fits || is_link_local(interface.address)) continue;
    if (names.accepts(interface.name)) ranked.emplace(rank_of(interface), interface);
  }
  std::vector<Interface> fitting;
  for (const auto& [rank, interface] : ranked) fitting.push_back(interface);
  return fitting;
}

Endpoint choose_address(const std::vector<Interface>& interfaces, const std::string& filter,
                        AddressFamily family) {
  const std::vector<Interface> fitting = fitting_interfaces(interfaces, filter, family);
  require(!fitting.empty(), GSHMEMX_ERROR_CONFIG,
          "no network interface fits GSHMEM_UID_INTERFACE=\"" + filter +
              "\" and GSHMEM_UID_FAMILY=\"" + word_of(family) +
              "\"; there is: " + interfaces_text(interfaces));
  return fitting.front().address;
}

}  // namespace gshmem::net

#include "transport/softnic/verbs/addresses.h"

#include "transport/softnic/profile.h"
#include "transport/softnic/verbs/objects.h"

#include <time.h>

#include <algorithm>
#include <cstring>

namespace gshmem::soft {
namespace {

bool is_ipv4(const std::uint8_t* gid) {
  static constexpr std::uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid, kPrefix, sizeof kPrefix) == 0;
}

bool has(const std::vector<GidAttributes>& gids, const std::uint8_t* gid) {
  return std::ranges::any_of(gids, [&](const GidAttributes& one) {
    return std::equal(one.bytes.begin(), one.bytes.end(), gid);
  });
}

/// Fails as the kernel does, which gives up after a second. The wait here is shorter, since a
/// longer one tests nothing more.
[[noreturn]] void no_answer() {
  const timespec wait{.tv_sec = 0, .tv_nsec = 30'000'000};
  ::nanosleep(&wait, nullptr);
  throw CallError{ETIMEDOUT};
}

// Follows Linux drivers/infiniband/core/addr.c, on a host whose ports are in one flat subnet. All
// devices are on one host, so an address is local, or does not exist.
/// Errors: those of route_to.
std::uint64_t resolve_mac(const DeviceAttributes& device, const ibv_global_route& route) {
  require_call(route.sgid_index < device.gids.size(), EINVAL);
  if ((device.profile.gids_down >> route.sgid_index & 1) != 0) no_answer();
  const std::uint8_t* to = route.dgid.raw;
  if (has(device.gids, to)) return device.mac;
  // An IPv6 address of the host itself gets the MAC of the interface that sends (rdma_translate_ip,
  // addr_resolve_neigh: source and destination are the same host), whichever port has it.
  for (int other = 0; !is_ipv4(to) && other < Engine::kMostDevices; ++other) {
    if (has(roce_gids(device.profile, other), to)) return device.mac;
  }
  // For an IPv4 address, ARP is sent by the interface of the source, and a host does not answer
  // itself.
  no_answer();
}

}  // namespace

Route route_to(const DeviceAttributes& device, const ibv_ah_attr& attributes) {
  Route route{.lid = attributes.dlid, .global = attributes.is_global != 0};
  require_call(route.global || device.mac == 0, EINVAL);
  if (!route.global) return route;
  const ibv_global_route& grh = attributes.grh;
  if (device.mac != 0) route.mac = resolve_mac(device, grh);
  route.gid_index = grh.sgid_index;
  std::copy_n(grh.dgid.raw, route.gid.size(), route.gid.begin());
  route.hop_limit = grh.hop_limit;
  // linux include/rdma/ib_verbs.h, rdma_flow_label_to_udp_sport
  const std::uint32_t label = grh.flow_label & 0xfffff;
  route.udp_source = static_cast<std::uint16_t>(kMinUdpSource | ((label ^ label >> 14) & 0x3fff));
  return route;
}

}  // namespace gshmem::soft

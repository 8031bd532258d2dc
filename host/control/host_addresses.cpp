#include "host/control/host_addresses.h"

#include <cstring>
#include <optional>

namespace gshmem::control {

using net::Candidate;
using net::Candidates;
using net::Endpoint;
using net::Interface;

std::vector<Endpoint> agree_on_addresses(Collectives& ranks, HostGroup& group,
                                         const Config& config) {
  struct Host {
    Candidates addresses{};
    char name[128] = "";
  } mine;
  // It is thrown after the collective, so that the other PEs do not wait.
  std::optional<Error> failure;
  try {
    const std::vector<Interface> interfaces = net::list_interfaces();
    mine.addresses = net::candidates_of(interfaces, config);
    if (group.n_nodes() > 1)
      (void)net::choose_address(interfaces, config.uid_interface, config.uid_family);
  } catch (const Error& error) {
    failure = error;
  }
  std::vector<Candidates> hosts(group.leaders.size());
  if (group.n_nodes() > 1) {
    std::strncpy(mine.name, group.hosts[static_cast<std::size_t>(group.node)].c_str(),
                 sizeof(mine.name) - 1);
    const std::vector<Host> all = allgather(ranks, mine);
    for (std::size_t node = 0; node < hosts.size(); ++node) {
      const Host& leader = all[static_cast<std::size_t>(group.leaders[node])];
      hosts[node] = leader.addresses;
      group.hosts[node] = {leader.name, ::strnlen(leader.name, sizeof(leader.name))};
    }
  }
  if (failure) throw *failure;
  hosts[static_cast<std::size_t>(group.node)] = mine.addresses;
  std::vector<Endpoint> addresses;
  for (const Candidate& candidate : net::order_addresses(hosts, group.node))
    addresses.push_back({.family = candidate.family, .ip = candidate.ip, .port = 0});
  return addresses;
}

}  // namespace gshmem::control

#include "host/control/host_group.h"

#include "host/base/error.h"
#include "host/base/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <unordered_map>
#include <utility>

namespace gshmem::control {

std::string host_identity() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  char host[128] = "";
  gethostname(host, sizeof(host) - 1);
  struct stat net {};
  (void)::stat("/proc/self/ns/net", &net);
  if (boot_id.empty() || net.st_ino == 0) {
    GSHMEM_WARN(
        "/proc does not tell this process its boot and network namespace: it shares memory with no "
        "PE of host %s that knows them, and two hosts of that name without /proc count as one",
        host);
  }
  return strprintf("%s (boot %.8s, net %lu, user %u)", host, boot_id.c_str(),
                   static_cast<unsigned long>(net.st_ino), unsigned{::geteuid()});
}

HostGroup group_hosts(const std::vector<std::string>& identities, int me) {
  HostGroup group;
  std::unordered_map<std::string, int> nodes;
  std::vector<std::vector<int>> members;  // indexed by node
  for (std::size_t pe = 0; pe < identities.size(); ++pe) {
    const auto [known, is_new] =
        nodes.try_emplace(identities[pe], static_cast<int>(members.size()));
    if (is_new) {
      members.emplace_back();
      group.hosts.push_back(identities[pe]);
      group.leaders.push_back(static_cast<int>(pe));
    }
    group.node_of.push_back(known->second);
    members[static_cast<std::size_t>(known->second)].push_back(static_cast<int>(pe));
  }
  group.node = group.node_of.at(static_cast<std::size_t>(me));
  group.pes = members[static_cast<std::size_t>(group.node)];
  const auto mine = std::ranges::lower_bound(group.pes, me) - group.pes.begin();
  group.index = static_cast<int>(mine);
  for (const std::vector<int>& pes : members) {
    if (static_cast<std::size_t>(mine) < pes.size())
      group.same_index.push_back(pes[static_cast<std::size_t>(mine)]);
  }
  return group;
}

std::vector<int> local_groups(const HostGroup& group, int pes_per_group) {
  std::vector<int> groups, seen(group.hosts.size(), 0);
  std::map<std::pair<int, int>, int> numbers;  // by node and local group on the node
  for (const int node : group.node_of) {
    const int index = seen[static_cast<std::size_t>(node)]++;
    const std::pair<int, int> key{node, pes_per_group > 0 ? index / pes_per_group : 0};
    groups.push_back(numbers.try_emplace(key, static_cast<int>(numbers.size())).first->second);
  }
  return groups;
}

}  // namespace gshmem::control

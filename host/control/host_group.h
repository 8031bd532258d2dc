// How the PEs of a job are spread over hosts, as one PE sees it: who shares memory with it, who
// speaks for each host, what its place is. Included by everything that maps or connects. Invariant:
// every PE of a job computes the same numbers for the same hosts.
#pragma once

#include <string>
#include <vector>

namespace gshmem::control {

/// Processes that may share memory and Unix sockets have this in common: boot, host name, network
/// namespace and user. Warns where /proc does not tell.
[[nodiscard]] std::string host_identity();

struct HostGroup {
  std::vector<int> pes;            ///< of this host, in PE order
  int index = 0;                   ///< of this PE among them
  int node = 0;                    ///< of this host; hosts count in the order of their first PEs
  std::vector<int> node_of;        ///< by PE
  std::vector<int> leaders;        ///< by node: the first PE of the host
  std::vector<std::string> hosts;  ///< by node: identity, or its hash until it is known
  std::vector<int> same_index;     ///< PEs with this index on their hosts, in the order of hosts

  [[nodiscard]] int size() const noexcept { return static_cast<int>(pes.size()); }
  [[nodiscard]] int n_nodes() const noexcept { return static_cast<int>(hosts.size()); }
  [[nodiscard]] int pe(int i) const { return pes[static_cast<std::size_t>(i)]; }
  [[nodiscard]] int me() const { return pe(index); }
  [[nodiscard]] const std::string& host_of(int pe) const {
    return hosts[static_cast<std::size_t>(node_of[static_cast<std::size_t>(pe)])];
  }
};

/// `identities`: host_identity() by PE, or hashes of them.
[[nodiscard]] HostGroup group_hosts(const std::vector<std::string>& identities, int me);

/// By PE: the number of its local group, the PEs that map each other's heaps by file descriptors.
/// That is its host, or with `pes_per_group` != 0 (GSHMEM_P2P_GROUP) so many PEs of it.
[[nodiscard]] std::vector<int> local_groups(const HostGroup& group, int pes_per_group);

}  // namespace gshmem::control

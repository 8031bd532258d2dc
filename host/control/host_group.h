// Describes how the PEs of a job are spread over hosts: which PEs share memory with this PE, which
// PE leads each host, and the index of this PE on its host. Included by code that maps memory or
// makes connections. Invariant: every PE of a job computes the same numbers for the same hosts.
#pragma once

#include <string>
#include <vector>

namespace gshmem::control {

/// Returns a text that is the same for all processes that can share memory and Unix sockets. It
/// contains the boot id, host name, network namespace and user. Warns if /proc does not provide
/// them.
[[nodiscard]] std::string host_identity();

struct HostGroup {
  std::vector<int> pes;  ///< the PEs of this host, in PE order
  int index = 0;         ///< index of this PE in `pes`
  int node = 0;  ///< number of this host; hosts are numbered in the order of their first PEs
  std::vector<int> node_of;  ///< number of the host of each PE
  std::vector<int> leaders;  ///< by node: the first PE of the host
  /// By node: identity of the host, or its hash until the identity is known.
  std::vector<std::string> hosts;
  /// The PEs that have this `index` on their hosts, in the order of hosts.
  std::vector<int> same_index;

  [[nodiscard]] int size() const noexcept { return static_cast<int>(pes.size()); }
  [[nodiscard]] int n_nodes() const noexcept { return static_cast<int>(hosts.size()); }
  [[nodiscard]] int pe(int i) const { return pes[static_cast<std::size_t>(i)]; }
  [[nodiscard]] int me() const { return pe(index); }
  [[nodiscard]] const std::string& host_of(int pe) const {
    return hosts[static_cast<std::size_t>(node_of[static_cast<std::size_t>(pe)])];
  }
};

/// `identities` has the host_identity() of each PE, or a hash of it.
[[nodiscard]] HostGroup group_hosts(const std::vector<std::string>& identities, int me);

/// Returns the number of the local group of each PE. The PEs of a local group map each other's
/// heaps by file descriptors. A group is all PEs of a host, or `pes_per_group` PEs of a host if
/// that is not 0 (GSHMEM_P2P_GROUP).
[[nodiscard]] std::vector<int> local_groups(const HostGroup& group, int pes_per_group);

}  // namespace gshmem::control

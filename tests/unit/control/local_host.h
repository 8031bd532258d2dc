// PEs of one host, connected by LocalPeers as in the runtime. Included by tests of the data and
// descriptors that PEs of a host exchange.
#pragma once

#include "host/base/collectives.h"
#include "host/base/error.h"
#include "host/control/local_peers.h"

#include <optional>
#include <string>
#include <vector>

namespace gshmem::test {

inline control::HostGroup one_host(int size, int me) {
  return control::group_hosts(std::vector<std::string>(static_cast<std::size_t>(size), "host"), me);
}

/// A PE of one host and its connections.
struct LocalHost {
  LocalHost(Collectives& boot, double timeout_seconds) : group(one_host(boot.size(), boot.rank())) {
    control::LocalPeers::Contact mine;
    std::optional<Error> failure;  // thrown after the other PEs have what they wait for
    try {
      mine = local.open();
    } catch (const Error& error) {
      failure = error;
    }
    const auto contacts = allgather(boot, mine);
    if (failure) throw *failure;
    links = local.connect(group, contacts, timeout_seconds);
  }
  control::HostGroup group;
  control::LocalPeers local;
  std::vector<control::Link> links;
};

}  // namespace gshmem::test

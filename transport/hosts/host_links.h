// TCP connections between the hosts of a job, from each host's first PE to its neighbours in the
// tree (relay.h). They carry host collectives and the news of who has gone. The kernel watches
// them: a host that does not answer any more breaks them, also when nothing is under way, and a
// process that is merely stopped does not. Other processes' connections cost a descriptor for a
// while.
#pragma once

#include "bootstrap/bootstrap.h"
#include "bootstrap/uid/socket.h"
#include "host/base/fd.h"
#include "transport/hosts/relay.h"

#include <vector>

namespace gshmem::hosts {

struct Link {
  int pe = -1;
  Fd fd;
};

/// Collective over the job; also those PEs call it that get no link. `address`: where other hosts
/// reach this one (host_addresses.h).
/// Errors: GSHMEMX_ERROR_TIMEOUT and GSHMEMX_ERROR_PEER_FAILED naming host, address and variable.
[[nodiscard]] std::vector<Link> connect_hosts(bootstrap::Bootstrap& boot,
                                              const p2p::HostGroup& group,
                                              const bootstrap::Endpoint& address,
                                              const Config& config, double timeout_seconds);

/// How long another host may be silent before its PEs count as failed: GSHMEM_HEARTBEAT, or
/// GSHMEM_TIMEOUT where that is shorter. 0 = for ever, else at least 2 (the kernel counts seconds).
[[nodiscard]] double silence_limit(const Config& config);

}  // namespace gshmem::hosts

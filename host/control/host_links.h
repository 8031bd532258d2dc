// TCP connections between the hosts of a job, from each host's first PE to its neighbours
// (tree.h). They carry host collectives and the news of who has gone. The kernel watches them:
// a host that does not answer any more breaks them, also when nothing is under way, and a process
// that is merely stopped does not. Other processes' connections cost a descriptor for a while.
#pragma once

#include "host/base/collectives.h"
#include "host/base/config.h"
#include "host/base/net/socket.h"
#include "host/control/host_group.h"
#include "host/control/link.h"

#include <vector>

namespace gshmem::control {

/// Collective over the job; also those PEs call it that get no link. `address`: where other hosts
/// reach this one (host_addresses.h).
/// Errors: GSHMEMX_ERROR_TIMEOUT and GSHMEMX_ERROR_PEER_FAILED naming host, address and variable.
[[nodiscard]] std::vector<Link> connect_hosts(Collectives& ranks, const HostGroup& group,
                                              const net::Endpoint& address, const Config& config,
                                              double timeout_seconds);

/// How long another host may be silent before its PEs count as failed: so long that an outage
/// shorter than GSHMEM_HEARTBEAT ends nothing, or GSHMEM_TIMEOUT where that is shorter. 0 = for
/// ever, else at least 2 (the kernel counts seconds).
[[nodiscard]] double silence_limit(const Config& config);

}  // namespace gshmem::control

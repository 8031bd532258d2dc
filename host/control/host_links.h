// TCP connections between the hosts of a job: the first PE of each host connects to its neighbours
// (tree.h). The connections carry host collectives and news of PEs that have left. The kernel
// monitors them. If a host stops answering, its connections break, even when no data is sent. A
// process that is only stopped does not break them. A connection from a process outside of the job
// occupies a descriptor for a while.
#pragma once

#include "host/base/collectives.h"
#include "host/base/config.h"
#include "host/base/net/socket.h"
#include "host/control/host_group.h"
#include "host/control/link.h"

#include <vector>

namespace gshmem::control {

/// Collective over the job; PEs that get no link call it, too. `addresses` are those at which other
/// hosts may reach this host, best first (host_addresses.h); all are tried. Errors:
/// GSHMEMX_ERROR_TIMEOUT and GSHMEMX_ERROR_PEER_FAILED; they name the host, its addresses and the
/// variable.
[[nodiscard]] std::vector<Link> connect_hosts(Collectives& ranks, const HostGroup& group,
                                              const std::vector<net::Endpoint>& addresses,
                                              const Config& config, double timeout_seconds);

/// Collective over the job. Returns `addresses` with the one first by which this host's leader has
/// the first of its `links`: an address that is known to reach another host.
[[nodiscard]] std::vector<net::Endpoint> confirm_addresses(Collectives& ranks,
                                                           const HostGroup& group,
                                                           std::vector<net::Endpoint> addresses,
                                                           const std::vector<Link>& links);

/// Returns how long another host may be silent before its PEs count as failed. The limit is so long
/// that an outage shorter than GSHMEM_HEARTBEAT does not end the job, but it is at most
/// GSHMEM_TIMEOUT. 0 means for ever; otherwise the limit is at least 2, since the kernel counts in
/// seconds.
[[nodiscard]] double silence_limit(const Config& config);

}  // namespace gshmem::control

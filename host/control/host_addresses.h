// Chooses the addresses by which the hosts of a job reach each other: the hosts compare their
// addresses (candidates.h). Included by the plane. The links between hosts and the network path use
// the result.
#pragma once

#include "host/base/collectives.h"
#include "host/base/config.h"
#include "host/base/net/candidates.h"
#include "host/control/host_group.h"

#include <vector>

namespace gshmem::control {

/// Collective over a job. In a job on several hosts, `group` receives the names of the hosts.
/// Returns this host's addresses, best first, with port 0; not empty in a job on several hosts.
/// Errors, thrown after the collective: GSHMEMX_ERROR_CONFIG when no interface fits.
[[nodiscard]] std::vector<net::Endpoint> agree_on_addresses(Collectives& ranks, HostGroup& group,
                                                            const Config& config);

}  // namespace gshmem::control

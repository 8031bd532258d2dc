// By which addresses the hosts of a job reach each other: they compare what they have
// (candidates.h). Included by the plane, whose links between hosts follow it, as the network path
// does.
#pragma once

#include "host/base/collectives.h"
#include "host/base/config.h"
#include "host/base/net/candidates.h"
#include "host/control/host_group.h"

#include <vector>

namespace gshmem::control {

/// Collective in a job on several hosts, where `group` gets the names of the hosts. Own addresses,
/// best first, ports 0; not empty in such a job. Errors there, thrown after the collective:
/// GSHMEMX_ERROR_CONFIG when no interface fits.
[[nodiscard]] std::vector<net::Endpoint> agree_on_addresses(Collectives& ranks, HostGroup& group,
                                                            const Config& config);

}  // namespace gshmem::control

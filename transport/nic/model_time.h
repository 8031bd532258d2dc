// Time that has passed by a network's model of costs: the soft NIC's (GSHNIC_COSTS), or that of a
// double of libfabric (GSHMEM_TEST_FABRIC_COSTS). Included by what measures on models.
#pragma once

#include "transport/nic/nic.h"

#include <optional>

namespace gshmem::nic {

/// Loads the network. Nothing: it has no model.
[[nodiscard]] std::optional<ModelTime> model_time(NicKind kind);

}  // namespace gshmem::nic

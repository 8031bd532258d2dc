// Addresses of peers on an Ethernet port, as the kernel resolves them for address handles.
#pragma once

#include "transport/softnic/engine.h"

#include <infiniband/verbs.h>

#include <cstdint>

namespace gshmem::soft {

/// Returns the route of an address handle, with its MAC address. Errors: CallError ETIMEDOUT when
/// no host answers for the address, EINVAL when the port has no such GID or needs one.
[[nodiscard]] Route route_to(const DeviceAttributes& device, const ibv_ah_attr& attributes);

}  // namespace gshmem::soft

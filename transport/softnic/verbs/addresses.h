// Addresses of peers on an Ethernet port, as the kernel resolves them for address handles.
#pragma once

#include "transport/softnic/engine.h"

#include <infiniband/verbs.h>

#include <cstdint>

namespace gshmem::soft {

/// The MAC address that packets to `route` get. Errors: CallError ETIMEDOUT when nobody answers for
/// that address, EINVAL when the port has no such GID.
[[nodiscard]] std::uint64_t resolve_mac(const DeviceAttributes& device,
                                        const ibv_global_route& route);

}  // namespace gshmem::soft

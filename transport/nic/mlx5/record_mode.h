// The choice whether queues have doorbell records. Included by mlx5_nic.cpp.
#pragma once

#include "transport/nic/mlx5/device.h"

#include <map>
#include <string>

namespace gshmem::nic::mlx5 {

/// The devices that a process has tried, indexed by name. A device is tried once, and not
/// for each Nic that uses it.
using TriedDevices = std::map<std::string, bool>;

/// Returns whether the queues of `device` work without doorbell records, as GSHMEM_DOORBELL_RECORD
/// says, if this process is expected to make `queues` of them. With auto, a card that can have so
/// many is tested: one queue that is connected to itself has to complete a NOP. Errors:
/// GSHMEMX_ERROR_CONFIG if the user wants no records, and the card needs them.
[[nodiscard]] bool does_without_records(Device& device, std::uint64_t queues, TriedDevices& tried);

}  // namespace gshmem::nic::mlx5

// The choice whether queues have doorbell records. Included by mlx5_nic.cpp.
#pragma once

#include "transport/nic/mlx5/device.h"

namespace gshmem::nic::mlx5 {

/// Returns whether the queues of `device` do without doorbell records, by GSHMEM_DOORBELL_RECORD.
/// With auto, a card that can is tried: one queue that is connected to itself has to complete a
/// NOP. Errors: GSHMEMX_ERROR_CONFIG if the user wants none, and the card cannot.
[[nodiscard]] bool does_without_records(Device& device);

}  // namespace gshmem::nic::mlx5

// Begins to check the order of operations (device/core/order_check.h). Called by the init of a PE
// with GSHMEM_CHECK=order or fences; only in a library for ThreadSanitizer.
#pragma once

#include <gshmem/device/core/order_check.h>

#include <cstdint>

namespace gshmem {

/// Only the first call has an effect. `seed` decides the order in which pending operations are
/// executed. `names_fences`: fences that order nothing are reported when the process ends.
void order_check_start(std::uint64_t seed, bool names_fences);

}  // namespace gshmem

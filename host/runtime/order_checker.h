// Begins to check the order of operations (device/core/order_check.h). Called by the init of a PE
// with GSHMEM_CHECK=order or fences; only in a library for ThreadSanitizer.
#pragma once

#include <gshmem/device/core/order_check.h>

#include <cstdint>

namespace gshmem {

/// The first call counts. `seed`: of the order in which pending operations are carried out.
/// `names_fences`: those that order nothing are named when the process ends.
void order_check_start(std::uint64_t seed, bool names_fences);

}  // namespace gshmem

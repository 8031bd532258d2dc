// Lets PEs agree that they make the same call, with the same arguments, before it changes anything.
// Included by the calls that all PEs make.
#pragma once

#include "host/base/collectives.h"

#include <cstdint>

namespace gshmem {

/// Collective, and a barrier. `size` and `other` are arguments, 0 if there are none. All PEs begin
/// with `call`. Errors: GSHMEMX_ERROR_SYMMETRY, which names the difference; those of `ranks`.
void require_same_call(Collectives& ranks, const char* call, std::uint64_t size = 0,
                       std::uint64_t other = 0);

}  // namespace gshmem

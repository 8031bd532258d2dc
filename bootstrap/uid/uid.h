// The uid bootstrap for other bootstraps: one that has found its ranks already and wants the star.
#pragma once

#include "bootstrap/bootstrap.h"

namespace gshmem::bootstrap {

/// As create_uid, with a limit of its own for the ranks to meet.
[[nodiscard]] std::unique_ptr<Bootstrap> create_uid_within(double join_seconds,
                                                           const gshmemx_uniqueid& id, int rank,
                                                           int size, const Config& config);

}  // namespace gshmem::bootstrap

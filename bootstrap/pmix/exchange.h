// Collectives over the PMIx server alone: put, fence, get. Included by pmix.cpp, which uses it to
// set up something faster, and by its tests.
#pragma once

#include "bootstrap/bootstrap.h"

namespace gshmem::bootstrap {

/// Errors: as create_pmix.
[[nodiscard]] std::unique_ptr<Bootstrap> create_pmix_exchange(double timeout_seconds);

}  // namespace gshmem::bootstrap

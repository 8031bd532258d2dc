// Charges operations as hardware would, in the time of a model: GSHMEM_TEST_FABRIC_COSTS
// names a file (transport/softnic/costs.h). Messages carry staged data, and RMA goes to GPU memory
// itself. Every endpoint has a link of its own. Included by the sources of the double.
#pragma once

#include "tests/doubles/fabric/wire.h"

#include "transport/softnic/costs.h"

namespace gshmem::test {

/// Accounts for an operation that endpoint number `endpoint` posts.
void charge(const Request& request, std::size_t endpoint);
/// Does the file say that this fails?
[[nodiscard]] bool fails_by_costs(soft::Costs::Fails what);

}  // namespace gshmem::test

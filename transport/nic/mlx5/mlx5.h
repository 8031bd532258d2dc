// The mlx5 transport as transport/nic/open.cpp sees it: no rdma-core types, so that it exists in
// builds without rdma-core's headers too (mlx5_none.cpp).
#pragma once

#include "transport/nic/nic.h"

#include <memory>
#include <string>

namespace gshmem::nic::mlx5 {

/// The transport on the libraries in `folder` (empty: the system's), on GSHMEM_NICS_PER_PE ports or
/// as many as the PE has that has fewest. Collective over options.boot: when one PE cannot open a
/// device, all fail with that PE's reason.
[[nodiscard]] NicList open_in(const OpenOptions& options, const std::string& folder);

/// Why open_in would find no device here; empty when there is one. Not collective.
[[nodiscard]] std::string why_none(const OpenOptions& options, const std::string& folder);

}  // namespace gshmem::nic::mlx5

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

/// Whether open_in and the registration of the heap would work here, tried on ports of the PE.
struct Usable {
  std::string why_not;      ///< empty: they would
  bool has_device = false;  ///< there is an active port, which then cannot be used
};
/// Not collective; never throws for want of a device.
[[nodiscard]] Usable usable(const OpenOptions& options, const std::string& folder);

}  // namespace gshmem::nic::mlx5

// The interface of the mlx5 transport for transport/nic/open.cpp. It has no rdma-core types, so
// that it also exists in builds without rdma-core's headers (mlx5_none.cpp).
#pragma once

#include "transport/nic/nic.h"

#include <memory>
#include <string>

namespace gshmem::nic::mlx5 {

/// Opens the transport on the libraries in `folder` (empty: the system's). It uses
/// GSHMEM_NICS_PER_PE ports, or as many as the PE with the fewest ports has. Collective over
/// options.boot: when one PE cannot open a device, all fail with that PE's reason.
[[nodiscard]] NicList open_in(const OpenOptions& options, const std::string& folder);

/// The result of a test on the ports of this PE: would open_in and the registration of the heap
/// succeed?
struct Usable {
  std::string why_not;      ///< empty if they would succeed
  bool has_device = false;  ///< there is an active port, even if it cannot be used
};
/// Not collective; never throws when no device is found.
[[nodiscard]] Usable usable(const OpenOptions& options, const std::string& folder);

}  // namespace gshmem::nic::mlx5

// Which libfabric provider and interface the executor uses: GSHMEM_OFI_PROVIDER and
// GSHMEM_OFI_INTERFACE, or the first that can do what is needed.
#pragma once

#include "transport/ofi/library.h"

#include <string>
#include <vector>

namespace gshmem::ofi {

struct Wanted {
  std::string provider;                     ///< "tcp;ofi_rxm"; empty = the best there is
  std::string interface;                    ///< "eth0", "10.0.0.1", "mlx5_0"; empty = see addresses
  std::vector<std::string> addresses = {};  ///< "10.0.0.1": the first that the provider offers
  std::string gpu_pci = {};                 ///< "0000:1b:00.0": of NICs the nearest; empty = none
  int local_rank = 0;                       ///< of equally near NICs, in turn
  bool gpu_memory = false;  ///< RMA to and from GPU memory (FI_HMEM); atomics only in hardware
};

/// The part of the provider that is used: reliable unconnected endpoints with RMA, messages and,
/// unless info lacks FI_ATOMIC, atomics. Errors: GSHMEMX_ERROR_NOT_SUPPORTED, with every provider
/// that libfabric offers here and why it was refused.
[[nodiscard]] InfoPtr choose_provider(const Library& library, const Wanted& wanted);

/// "tcp;ofi_rxm on 10.0.0.1:43211 (domain eth0)"
[[nodiscard]] std::string describe_provider(const fi_info& info);

}  // namespace gshmem::ofi

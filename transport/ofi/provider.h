// Which libfabric provider and interface the executor uses: GSHMEM_OFI_PROVIDER and
// GSHMEM_OFI_INTERFACE, or the first that can do what is needed.
#pragma once

#include "transport/ofi/library.h"

#include <string>
#include <vector>

namespace gshmem::ofi {

struct Wanted {
  /// "tcp;ofi_rxm", or with the name of a fabric, "efa/efa-direct"; empty = the best there is.
  std::string provider = {};
  std::string interface = {};               ///< "eth0", "10.0.0.1", "mlx5_0"; empty = see addresses
  std::vector<std::string> addresses = {};  ///< "10.0.0.1": the first that the provider offers
  std::string gpu_pci = {};                 ///< "0000:1b:00.0": of NICs the nearest; empty = none
  int local_rank = 0;                       ///< of equally near NICs, in turn
  int nics = 1;                             ///< at most; 0 = those beside the GPU
  bool gpu_memory = false;                  ///< RMA to and from GPU memory (FI_HMEM)
  bool large_messages = false;              ///< of more than a packet
};

/// The part of the provider that is used, of one NIC or of several, the nearest first: reliable
/// unconnected endpoints with RMA, messages and, where the NIC has them, atomics. Errors:
/// GSHMEMX_ERROR_NOT_SUPPORTED, with every provider that libfabric offers here and why it was
/// refused.
[[nodiscard]] std::vector<InfoPtr> choose_provider(const Library& library, const Wanted& wanted);

/// This machine has a network whose NICs reach GPU memory when all is as it should be ("efa");
/// empty when it has none. To stage on it would be a fifth of its speed.
[[nodiscard]] std::string network_for_gpus(const Library& library);

/// "tcp;ofi_rxm on 10.0.0.1:43211 (domain eth0)"
[[nodiscard]] std::string describe_provider(const fi_info& info);

}  // namespace gshmem::ofi

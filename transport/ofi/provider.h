// Chooses the libfabric provider and interface: GSHMEM_OFI_PROVIDER and GSHMEM_OFI_INTERFACE, or
// the first provider with the required features.
#pragma once

#include "transport/ofi/library.h"

#include <string>
#include <vector>

namespace gshmem::ofi {

struct Wanted {
  /// For example "tcp;ofi_rxm", or with the name of a fabric, "efa/efa-direct"; empty = the best
  /// one.
  std::string provider = {};
  std::string interface = {};  ///< for example "eth0", "10.0.0.1", "mlx5_0"; empty = see addresses
  /// Such as "10.0.0.1": the first that the provider has is used.
  std::vector<std::string> addresses = {};
  std::string gpu_pci = {};     ///< such as "0000:1b:00.0": the nearest NIC is used; empty = none
  int local_rank = 0;           ///< chooses between equally near NICs
  int nics = 1;                 ///< at most this many; 0 = those under the GPU's root port
  bool gpu_memory = false;      ///< RMA to and from GPU memory (FI_HMEM)
  bool large_messages = false;  ///< messages larger than a packet
};

/// Returns the entry of the provider to use, for one NIC or several, the nearest first. It has
/// reliable unconnected endpoints with RMA, messages and, if the NIC has them, atomics. Errors:
/// GSHMEMX_ERROR_NOT_SUPPORTED, with every provider that libfabric offers here and the reason why
/// it was refused.
[[nodiscard]] std::vector<InfoPtr> choose_provider(const Library& library, const Wanted& wanted);

/// Returns the network of this machine ("efa") whose NICs can access GPU memory when they are
/// configured correctly; empty when there is none. Staging on such a network would give a fifth of
/// its speed.
[[nodiscard]] std::string network_for_gpus(const Library& library);

/// Returns for example "tcp;ofi_rxm on 10.0.0.1:43211 (domain eth0)"
[[nodiscard]] std::string describe_provider(const fi_info& info);

}  // namespace gshmem::ofi

// Memory that the NIC may access: regions with keys (the heap), and the memory of queues, which the
// device identifies by a umem. Included by mlx5_nic and connection. GPU memory is registered by
// dmabuf if possible, and otherwise by its address, which works if nvidia-peermem is loaded.
#pragma once

#include "transport/nic/mlx5/device.h"

namespace gshmem::nic::mlx5 {

/// Order of the writes with a key: PCIe keeps their order, or need not (PCI Express, 2.4.1).
enum class Order { kStrict, kRelaxed };
struct RegisteredRegion {
  OwnedMr mr;  ///< its keys address the region from the region's offset on
  /// The NIC accesses it by Data Direct, which is another path than that to queues and completions.
  bool direct = false;
};
/// Errors: the result of every attempt, and what to do.
[[nodiscard]] RegisteredRegion register_region(const Device& device, const Region& region,
                                               Order order);

/// Registers the memory of all queues; commands take offsets in it.
[[nodiscard]] OwnedUmem register_queues(const Device& device, const Region& region);

}  // namespace gshmem::nic::mlx5

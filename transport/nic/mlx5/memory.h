// Memory that the NIC may touch: regions with keys (the heap), and the memory of queues, which the
// device knows by a umem. Included by mlx5_nic and connection. GPU memory goes by dmabuf first,
// then by its address, which works where nvidia-peermem is loaded.
#pragma once

#include "transport/nic/mlx5/device.h"

namespace gshmem::nic::mlx5 {

/// Order of the writes by a key: PCIe keeps it, or need not (PCI Express, 2.4.1).
enum class Order { kStrict, kRelaxed };
struct RegisteredRegion {
  OwnedMr mr;  ///< its keys address the region from its offset on
  /// The NIC reaches it by Data Direct, another path than that to queues and completions.
  bool direct = false;
};
/// Errors: what every way was answered, and what to do.
[[nodiscard]] RegisteredRegion register_region(const Device& device, const Region& region,
                                               Order order);

/// The memory of all queues; offsets in it are what commands take.
[[nodiscard]] OwnedUmem register_queues(const Device& device, const Region& region);

}  // namespace gshmem::nic::mlx5

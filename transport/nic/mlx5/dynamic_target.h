// The target of a PE on a port, which takes the entries of all other PEs by dynamic connections,
// and the objects that the library requires with it. Mlx5Nic owns it. Invariant: nothing is ever
// received here, because no entry of gshmem needs a receive buffer; the shared receive queue stays
// empty.
#pragma once

#include "transport/nic/mlx5/device.h"

#include <cstdint>

namespace gshmem::nic::mlx5 {

class DynamicTarget {
 public:
  /// Makes a target that takes initiators with this key. Errors: GSHMEMX_ERROR_NIC,
  /// GSHMEMX_ERROR_NOT_SUPPORTED if the library is too old.
  DynamicTarget(const Device& device, std::uint64_t key);

  [[nodiscard]] std::uint32_t number() const { return target_->qp_num; }
  [[nodiscard]] std::uint64_t key() const { return key_; }
  /// Returns the number of the shared receive queue. The kernel driver gives its own initiators
  /// one, too (linux drivers/infiniband/hw/mlx5/qp.c).
  [[nodiscard]] std::uint32_t receive_queue() const { return receive_queue_; }
  /// Returns the address vector to a target of this job.
  [[nodiscard]] abi::AddressVector vector_to(int pe, std::uint32_t number, std::uint16_t lid,
                                             const Gid& gid) const;

 private:
  const Device& device_;
  std::uint64_t key_;
  OwnedCq cq_;
  OwnedSrq receives_;
  OwnedQp target_;
  std::uint32_t receive_queue_ = 0;
};

/// Throws GSHMEMX_ERROR_CONFIG if the device has not all that GSHMEM_CONNECT=dc needs.
void require_dynamic(const Caps& caps, const std::string& device);

}  // namespace gshmem::nic::mlx5

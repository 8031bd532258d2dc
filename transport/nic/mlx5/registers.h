// Doorbell registers of a device for queues. While there are few queues, each has its own. A
// register may serve any number of queues, because a doorbell names its queue and the device
// accepts every store to a register. Included by mlx5_nic. Invariant: a register stays allocated
// until destruction, because a GPU may have its page mapped, and a thread that forwards doorbells
// may still store to it.
#pragma once

#include "transport/nic/mlx5/device.h"

#include <cstddef>
#include <vector>

namespace gshmem::nic::mlx5 {

class DoorbellRegisters {
 public:
  /// After this number, registers are reused from the first on. The number is small, because all
  /// processes on a device share them: a virtual function has about 512 pages with four registers
  /// each (rdma-core providers/mlx5/verbs.c mlx5_insert_dyn_uuars).
  static constexpr std::size_t kMost = 64;

  explicit DoorbellRegisters(const Device& device) : device_(device) {}
  DoorbellRegisters(const DoorbellRegisters&) = delete;
  /// Returns the register for one more queue. Errors: GSHMEMX_ERROR_NIC if the device has no
  /// register at all.
  [[nodiscard]] const mlx5dv_devx_uar& take();
  /// Returns the address to which a doorbell is stored.
  [[nodiscard]] static std::uint64_t* doorbell_of(const Device& device,
                                                  const mlx5dv_devx_uar& bell);
  /// Returns a register that has been taken, by its doorbell.
  [[nodiscard]] const mlx5dv_devx_uar& by(const std::uint64_t* doorbell) const;

 private:
  [[nodiscard]] OwnedUar allocate();

  const Device& device_;
  std::vector<OwnedUar> registers_;
  std::size_t queues_ = 0;
};

}  // namespace gshmem::nic::mlx5

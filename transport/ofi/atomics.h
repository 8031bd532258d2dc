// Maps an atomic of a WQE to a libfabric operation. Pure: tests compare every plan with
// nic::atomic_result.
#pragma once

#include "transport/nic/decode.h"

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <cstdint>

namespace gshmem::ofi {

/// The atomics that a provider supports on unsigned words of 4 and 8 bytes, with the old value
/// returned.
class AtomicSupport {
 public:
  void add(std::uint64_t bytes, fi_op op) { ops_[bytes == 8] |= bit(op); }
  [[nodiscard]] bool has(std::uint64_t bytes, fi_op op) const {
    return (ops_[bytes == 8] & bit(op)) != 0;
  }
  /// Compare-and-swap is enough to implement every atomic of a WQE.
  [[nodiscard]] bool complete() const { return has(4, FI_CSWAP) && has(8, FI_CSWAP); }

 private:
  static std::uint32_t bit(fi_op op) { return std::uint32_t{1} << op; }
  std::uint32_t ops_[2] = {0, 0};
};
/// Asks the provider. The result is empty if atomics were not requested (provider.h), even if the
/// provider has some.
[[nodiscard]] AtomicSupport atomic_support(const fi_info& info, fid_ep* endpoint);

struct AtomicPlan {
  enum class Call {
    kFetch,    ///< uses fi_fetch_atomic(op, operand)
    kCompare,  ///< uses fi_compare_atomic(op, operand, compare)
    /// A loop of compare-and-swap. It tries to replace an expected value by its nic::atomic_result,
    /// until the expected value was right. It is atomic to all other atomics of the provider.
    kLoop,
  };
  Call call = Call::kLoop;
  fi_op op = FI_CSWAP;
  std::uint64_t operand = 0, compare = 0;
};
[[nodiscard]] AtomicPlan plan_atomic(const nic::Wqe& wqe, const AtomicSupport& support);

}  // namespace gshmem::ofi

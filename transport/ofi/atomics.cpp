#include "transport/ofi/atomics.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>

namespace gshmem::ofi {
namespace {

using Call = AtomicPlan::Call;

AtomicPlan plan_add(std::uint64_t add, std::uint64_t boundary, std::uint64_t mask) {
  // The carry out of the highest bit is dropped with or without a boundary there.
  const std::uint64_t inner = mask >> 1;
  if ((boundary & inner) == 0) return {Call::kFetch, FI_SUM, add & mask, 0};
  if ((boundary & inner) == inner) return {Call::kFetch, FI_BXOR, add & mask, 0};
  return {};
}

/// fi_atomic(3): MSWAP is `(old & ~compare) | (operand & compare)`, CSWAP writes when
/// `compare == old`.
AtomicPlan plan_swap(const nic::Wqe& wqe, std::uint64_t mask) {
  const std::uint64_t compare_mask = wqe.compare_mask & mask, swap_mask = wqe.swap_mask & mask;
  const std::uint64_t swap = wqe.swap_or_add & swap_mask;
  if (compare_mask == mask && swap_mask == mask)
    return {Call::kCompare, FI_CSWAP, swap, wqe.compare & mask};
  if (compare_mask != 0) return {};
  if (swap_mask == mask) return {Call::kFetch, FI_ATOMIC_WRITE, swap, 0};
  // It adds nothing, so it is a fetch.
  if (swap == swap_mask) return {Call::kFetch, FI_BOR, swap, 0};
  if (swap == 0) return {Call::kFetch, FI_BAND, mask & ~swap_mask, 0};
  return {Call::kCompare, FI_MSWAP, swap, swap_mask};
}

AtomicPlan best_plan(const nic::Wqe& wqe) {
  const std::uint64_t mask = wqe.length == 4 ? 0xffffffffu : ~std::uint64_t{0};
  switch (wqe.kind) {
    case nic::WqeKind::kFetchAdd:
      return plan_add(wqe.swap_or_add, 0, mask);
    case nic::WqeKind::kMaskedFetchAdd:
      return plan_add(wqe.swap_or_add, wqe.boundary, mask);
    case nic::WqeKind::kCompareSwap:
      return {Call::kCompare, FI_CSWAP, wqe.swap_or_add & mask, wqe.compare & mask};
    case nic::WqeKind::kMaskedCompareSwap:
      return plan_swap(wqe, mask);
    default:
      return {};
  }
}

}  // namespace

AtomicPlan plan_atomic(const nic::Wqe& wqe, const AtomicSupport& support) {
  const AtomicPlan plan = best_plan(wqe);
  return support.has(wqe.length, plan.op) ? plan : AtomicPlan{};
}

AtomicSupport atomic_support(const fi_info& info, fid_ep* endpoint) {
  AtomicSupport support;
  if ((info.caps & FI_ATOMIC) == 0) return support;
  for (const std::uint64_t bytes : {4u, 8u}) {
    const fi_datatype type = bytes == 4 ? FI_UINT32 : FI_UINT64;
    std::size_t count;  // number of words that fit into a call; one is enough
    for (const fi_op op : {FI_SUM, FI_BXOR, FI_BOR, FI_BAND, FI_ATOMIC_WRITE})
      if (fi_fetch_atomicvalid(endpoint, type, op, &count) == 0) support.add(bytes, op);
    for (const fi_op op : {FI_CSWAP, FI_MSWAP})
      if (fi_compare_atomicvalid(endpoint, type, op, &count) == 0) support.add(bytes, op);
  }
  return support;
}

}  // namespace gshmem::ofi

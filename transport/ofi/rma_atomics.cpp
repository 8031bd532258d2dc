// Atomics by the provider, where the NIC carries them out.
#include "transport/ofi/rma.h"

#include <rdma/fi_atomic.h>

#include <cstring>

namespace gshmem::ofi {
namespace {

/// The places of an atomic's operands in Operation::scratch.
enum Scratch : std::size_t { kOperand = 0, kCompare = 8, kResult = 16 };

void put(std::uint8_t* to, std::uint64_t value, std::uint64_t bytes) {
  const auto low = static_cast<std::uint32_t>(value);
  if (bytes == 4)
    std::memcpy(to, &low, sizeof(low));
  else
    std::memcpy(to, &value, sizeof(value));
}

std::uint64_t get(const std::uint8_t* from, std::uint64_t bytes) {
  std::uint32_t low = 0;
  std::uint64_t value = 0;
  if (bytes == 4) {
    std::memcpy(&low, from, sizeof(low));
    return low;
  }
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace

void RmaEngine::issue_atomic(Operation& operation) {
  const AtomicPlan plan = plan_atomic(operation.wqe, setup_.atomics);
  Piece* piece = acquire(operation, operation.peer->home, Use::kAtomic);
  if (piece == nullptr) return;
  if (accepted(*piece, post_atomic(operation, plan, *piece)))
    operation.state = Operation::State::kIssued;
}

ssize_t RmaEngine::post_atomic(Operation& operation, const AtomicPlan& plan, Piece& piece) {
  const nic::Wqe& wqe = operation.wqe;
  const Peer& peer = *operation.peer;
  const Way& way = peer.ways[piece.lane];
  std::uint64_t operand = plan.operand, compare = plan.compare;
  if (plan.call == AtomicPlan::Call::kLoop) {
    operand = nic::atomic_result(wqe, operation.expected);
    compare = operation.expected;
  }
  std::uint8_t* const scratch = operation.scratch;
  put(scratch + kOperand, operand, wqe.length);
  put(scratch + kCompare, compare, wqe.length);
  void* const descriptor = setup_.pool.descriptors[piece.lane];
  void* const context = static_cast<Context*>(&piece);
  fid_ep* const endpoint = setup_.lanes[piece.lane].endpoint();
  const fi_datatype type = wqe.length == 4 ? FI_UINT32 : FI_UINT64;
  const std::uint64_t remote = peer.heap_base + wqe.remote_address;
  if (plan.call == AtomicPlan::Call::kFetch)
    return fi_fetch_atomic(endpoint, scratch + kOperand, 1, descriptor, scratch + kResult,
                           descriptor, way.address, remote, way.heap_key, type, plan.op, context);
  return fi_compare_atomic(endpoint, scratch + kOperand, 1, descriptor, scratch + kCompare,
                           descriptor, scratch + kResult, descriptor, way.address, remote,
                           way.heap_key, type, plan.op, context);
}

RmaEngine::AtomicEnd RmaEngine::finish_atomic(Operation& operation) {
  const nic::Wqe& wqe = operation.wqe;
  const std::uint64_t old = get(operation.scratch + kResult, wqe.length);
  const AtomicPlan plan = plan_atomic(wqe, setup_.atomics);
  if (plan.call == AtomicPlan::Call::kLoop && old != operation.expected) {
    operation.expected = old;
    return AtomicEnd::kAgain;
  }
  if (is_unwanted(wqe)) return AtomicEnd::kDone;
  try {
    const Ticket ticket = start_result(setup_.access, wqe, old, operation.scratch + kResult);
    if (ticket == kNoTicket) return AtomicEnd::kDone;
    results_.push_back({&operation, ticket});
    return AtomicEnd::kResultOnItsWay;
  } catch (const Error& error) {
    operation.fail(failure(abi::Syndrome::kLocalProtection, error.what()));
    return AtomicEnd::kDone;
  }
}

}  // namespace gshmem::ofi

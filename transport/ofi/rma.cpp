#include "transport/ofi/rma.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <sys/uio.h>

#include <algorithm>
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

RmaEngine::RmaEngine(Fabric& fabric, const Registered& heap, MemoryAccess& access,
                     AtomicSupport support)
    : fabric_(fabric),
      heap_(heap),
      access_(access),
      support_(support),
      max_chunk_(fabric.info().ep_attr->max_msg_size) {
  const std::size_t places = std::clamp<std::size_t>(fabric.info().tx_attr->size, 1, 4096);
  for (std::size_t i = 0; i < places; ++i) {
    Piece& piece = pieces_.emplace_back();
    piece.sink = this;
    free_.push_back(&piece);
  }
}

void RmaEngine::issue(Operation& operation) {
  if (operation.wqe.is_atomic())
    issue_atomic(operation);
  else
    issue_chunks(operation);
}

std::string RmaEngine::awaits(const Operation& operation) const {
  return strprintf("%u call(s) that the provider did not complete", operation.in_flight);
}

RmaEngine::Piece* RmaEngine::acquire(Operation& operation) {
  if (free_.empty()) return nullptr;
  Piece* piece = free_.back();
  free_.pop_back();
  piece->operation = &operation;
  return piece;
}

bool RmaEngine::accepted(Operation& operation, Piece& piece, ssize_t result) {
  if (result == 0) {
    operation.piece_begins();
    return true;
  }
  free_.push_back(&piece);
  if (result == -FI_EAGAIN) {
    operation.refused = true;
    return false;
  }
  const int error = static_cast<int>(-result);
  operation.fail_by_provider(failure_of_provider(
      {.error = error, .bytes = 0, .text = Library::get().text(error)}, operation.describe()));
  return false;
}

void RmaEngine::issue_chunks(Operation& operation) {
  if (!operation.wqe.inline_payload.empty())
    std::copy(operation.wqe.inline_payload.begin(), operation.wqe.inline_payload.end(),
              operation.scratch);
  for (;;) {
    const Chunk chunk = operation.next_chunk(max_chunk_);
    if (chunk.bytes == 0) {
      operation.state = Operation::State::kIssued;
      return;
    }
    Piece* piece = acquire(operation);
    if (piece == nullptr) return;
    if (!accepted(operation, *piece, post_chunk(operation, chunk, *piece))) return;
    operation.advance(chunk.bytes);
  }
}

ssize_t RmaEngine::post_chunk(const Operation& operation, const Chunk& chunk, Piece& piece) {
  const Peer& peer = *operation.peer;
  const bool from_scratch = chunk.payload != nullptr;
  // Inline payload was copied to the begin of the scratch memory.
  void* local = heap_.base + chunk.local;
  if (from_scratch)
    local = operation.scratch + (chunk.payload - operation.wqe.inline_payload.data());
  void* descriptor = from_scratch ? operation.scratch_descriptor : heap_.descriptor;
  const iovec here{local, chunk.bytes};
  const fi_rma_iov there{peer.heap_base + chunk.remote, chunk.bytes, peer.provider_key};
  fi_msg_rma message{};
  message.msg_iov = &here;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = peer.address;
  message.rma_iov = &there;
  message.rma_iov_count = 1;
  message.context = static_cast<Context*>(&piece);
  if (operation.wqe.kind == nic::WqeKind::kRead)
    return fi_readmsg(fabric_.endpoint(), &message, FI_COMPLETION);
  return fi_writemsg(fabric_.endpoint(), &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

void RmaEngine::issue_atomic(Operation& operation) {
  const AtomicPlan plan = plan_atomic(operation.wqe, support_);
  Piece* piece = acquire(operation);
  if (piece == nullptr) return;
  if (accepted(operation, *piece, post_atomic(operation, plan, *piece)))
    operation.state = Operation::State::kIssued;
}

ssize_t RmaEngine::post_atomic(Operation& operation, const AtomicPlan& plan, Piece& piece) {
  const nic::Wqe& wqe = operation.wqe;
  const Peer& peer = *operation.peer;
  std::uint64_t operand = plan.operand, compare = plan.compare;
  if (plan.call == AtomicPlan::Call::kLoop) {
    operand = nic::atomic_result(wqe, operation.expected);
    compare = operation.expected;
  }
  std::uint8_t* const scratch = operation.scratch;
  put(scratch + kOperand, operand, wqe.length);
  put(scratch + kCompare, compare, wqe.length);
  void* const descriptor = operation.scratch_descriptor;
  void* const context = static_cast<Context*>(&piece);
  const fi_datatype type = wqe.length == 4 ? FI_UINT32 : FI_UINT64;
  const std::uint64_t remote = peer.heap_base + wqe.remote_address;
  if (plan.call == AtomicPlan::Call::kFetch)
    return fi_fetch_atomic(fabric_.endpoint(), scratch + kOperand, 1, descriptor, scratch + kResult,
                           descriptor, peer.address, remote, peer.provider_key, type, plan.op,
                           context);
  return fi_compare_atomic(fabric_.endpoint(), scratch + kOperand, 1, descriptor,
                           scratch + kCompare, descriptor, scratch + kResult, descriptor,
                           peer.address, remote, peer.provider_key, type, plan.op, context);
}

bool RmaEngine::finish_atomic(Operation& operation) {
  const std::uint64_t old = get(operation.scratch + kResult, operation.wqe.length);
  const AtomicPlan plan = plan_atomic(operation.wqe, support_);
  if (plan.call == AtomicPlan::Call::kLoop && old != operation.expected) {
    operation.expected = old;
    return false;
  }
  write_result(access_, operation.wqe, old);
  return true;
}

void RmaEngine::completed(Context& context, const Completion& completion) {
  auto& piece = static_cast<Piece&>(context);
  Operation& operation = *piece.operation;
  free_.push_back(&piece);
  if (completion.error != 0) {
    operation.piece_ends(failure_of_provider(completion, operation.describe()));
    return;
  }
  const bool again = operation.wqe.is_atomic() && !operation.failure && !finish_atomic(operation);
  operation.piece_ends({});
  if (again) operation.state = Operation::State::kBegun;
}

}  // namespace gshmem::ofi

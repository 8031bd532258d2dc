#include "transport/ofi/operation.h"

#include <algorithm>

namespace gshmem::ofi {

Failure failure(abi::Syndrome syndrome, std::string text) {
  // 0x81 is what mlx5 says with "retry exceeded" when nobody answers.
  const bool retry = syndrome == abi::Syndrome::kRetryExceeded;
  return {.syndrome = static_cast<std::uint8_t>(syndrome),
          .vendor = static_cast<std::uint8_t>(retry ? 0x81 : 0),
          .text = std::move(text)};
}

namespace {

abi::Syndrome syndrome_of(int error) {
  switch (error) {
    case FI_EACCES:
    case FI_EPERM:
    case FI_EKEYREJECTED:
    case FI_ENOKEY:
      return abi::Syndrome::kRemoteAccess;
    case FI_EFAULT:
      return abi::Syndrome::kLocalProtection;
    case FI_EMSGSIZE:
    case FI_ETOOSMALL:
    case FI_ETRUNC:
      return abi::Syndrome::kLocalLength;
    // Codes that providers report when a connection ends, at the operations that were on it too
    // (seen with libfabric 1.17: FI_ECANCELED of ofi_rxm, FI_EIO of sockets, and FI_ENOENT of
    // sockets for an operation after it).
    case FI_ENOENT:
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case FI_ETIMEDOUT:
    case FI_EHOSTDOWN:
    case FI_EHOSTUNREACH:
    case FI_ENETDOWN:
    case FI_ENETUNREACH:
    case FI_ECANCELED:
    case FI_EIO:
    case EPIPE:
      return abi::Syndrome::kRetryExceeded;
    default:
      return abi::Syndrome::kRemoteOperation;
  }
}

const char* name_of(nic::WqeKind kind) {
  switch (kind) {
    case nic::WqeKind::kNop:
      return "NOP";
    case nic::WqeKind::kWrite:
      return "WRITE";
    case nic::WqeKind::kRead:
      return "READ";
    case nic::WqeKind::kDump:
      return "DUMP";
    default:
      return "atomic";
  }
}

}  // namespace

Failure failure_of_provider(const Completion& completion, const std::string& what) {
  return failure(syndrome_of(completion.error), what + ": " + completion.text);
}

Chunk Operation::next_chunk(std::uint64_t max) const {
  Chunk chunk{.remote = wqe.remote_address + at_remote_};
  if (at_remote_ < wqe.inline_payload.size()) {
    chunk.payload = wqe.inline_payload.data() + at_remote_;
    chunk.bytes = std::min(wqe.inline_payload.size() - at_remote_, max);
  } else if (piece_ < wqe.local.size()) {
    const nic::LocalPiece& piece = wqe.local[piece_];
    chunk.local = piece.address + in_piece_;
    chunk.bytes = std::min(piece.bytes - in_piece_, max);
  }
  return chunk;
}

void Operation::advance(std::uint64_t bytes) {
  const bool was_inline = at_remote_ < wqe.inline_payload.size();
  at_remote_ += bytes;
  if (was_inline) return;
  in_piece_ += bytes;
  while (piece_ < wqe.local.size() && in_piece_ >= wqe.local[piece_].bytes) {
    ++piece_;
    in_piece_ = 0;
  }
}

void Operation::piece_begins() {
  ++in_flight;
  ++peer->in_flight;
}

void Operation::piece_ends(const Failure& why) {
  --in_flight;
  --peer->in_flight;
  if (why)
    fail_by_provider(why);
  else
    peer->answered = true;
}

void Operation::fail_by_provider(const Failure& why) {
  // All queues to a peer share one connection.
  constexpr auto kLost = static_cast<std::uint8_t>(abi::Syndrome::kRetryExceeded);
  if (why.syndrome == kLost && peer->lost.empty()) peer->lost = why.text;
  fail(why);
}

void Operation::fail(Failure why) {
  if (!failure) failure = std::move(why);
  state = State::kIssued;
}

void Operation::reset() {
  std::uint8_t* const memory = scratch;
  void* const descriptor = scratch_descriptor;
  *this = Operation{};
  scratch = memory;
  scratch_descriptor = descriptor;
}

std::string Operation::describe() const {
  return strprintf("%s of %llu bytes to PE %d", name_of(wqe.kind),
                   static_cast<unsigned long long>(wqe.length), peer != nullptr ? peer->pe : -1);
}

OperationPool::OperationPool(Fabric& fabric, std::size_t count)
    : memory_(count * kScratchBytes + 2 * sizeof(std::uint64_t)) {
  registered_ = fabric.register_memory({.base = memory_.data(), .bytes = memory_.size()},
                                       FI_READ | FI_WRITE | FI_REMOTE_READ);
  for (std::size_t i = 0; i < count; ++i) {
    Operation& operation = operations_.emplace_back();
    operation.scratch = memory_.data() + i * kScratchBytes;
    operation.scratch_descriptor = registered_.descriptor;
    free_.push_back(&operation);
  }
}

Operation* OperationPool::acquire() {
  if (free_.empty()) return nullptr;
  Operation* operation = free_.back();
  free_.pop_back();
  return operation;
}

void OperationPool::release(Operation* operation) {
  operation->reset();
  free_.push_back(operation);
}

}  // namespace gshmem::ofi

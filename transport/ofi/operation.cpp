#include "transport/ofi/operation.h"

namespace gshmem::ofi {

Failure failure(abi::Syndrome syndrome, std::string text) {
  // mlx5 reports 0x81 with "retry exceeded" when there is no answer.
  const bool retry = syndrome == abi::Syndrome::kRetryExceeded;
  return {.syndrome = static_cast<std::uint8_t>(syndrome),
          .vendor = static_cast<std::uint8_t>(retry ? 0x81 : 0),
          .text = std::move(text)};
}

void Operation::piece_begins() { ++in_flight; }

void Operation::piece_ends() {
  --in_flight;
  ++peer->answers;
  tell();
}

void Operation::piece_fails(Failure why) {
  --in_flight;
  fail(std::move(why));
}

void Operation::fail(Failure why) {
  if (!failure) failure = std::move(why);
  state = State::kIssued;
  tell();
}

void Operation::tell() {
  const bool more = state == State::kBegun && in_flight == 0;
  if (owner == nullptr || told || !(done() || more || failure)) return;
  told = done();
  owner->changed(*this);
}

void Operation::reset() {
  peer = nullptr;
  state = State::kQueued;
  in_flight = 0;
  refused = told = counted = false;
  group = kNoGroup;
  pieces = reserved = rails = 0;
  if (failure) failure = {};
  expected = 0;
  piece_ = 0;
  in_piece_ = at_remote_ = 0;
}

std::string Operation::describe() const {
  // A write of a word may have been converted to an atomic. Its opcode still shows the original
  // operation.
  const bool writes = wqe.opcode == static_cast<std::uint8_t>(abi::Opcode::kRdmaWrite);
  const char* const name = wqe.kind == nic::WqeKind::kRead ? "READ"
                           : wqe.is_atomic() && !writes    ? "atomic"
                                                           : "WRITE";
  return strprintf("%s of %lu bytes to PE %d", name, wqe.length, peer->pe);
}

OperationPool::OperationPool(std::uint8_t* memory, std::size_t count, std::size_t peers)
    : quota_(count, peers) {
  for (std::size_t i = 0; i < count; ++i) {
    Operation& operation = operations_.emplace_back();
    operation.scratch = memory + i * kScratchBytes;
    free_.push_back(&operation);
  }
}

Operation* OperationPool::acquire(Peer& peer) {
  if (!quota_.may_take(peer.pe)) return nullptr;
  quota_.take(peer.pe);
  Operation* operation = free_.back();
  free_.pop_back();
  operation->peer = &peer;
  return operation;
}

void OperationPool::release(Operation* operation) {
  quota_.release(operation->peer->pe);
  operation->reset();
  free_.push_back(operation);
}

}  // namespace gshmem::ofi

// The requesting side of active messages.
#include "transport/ofi/active_messages.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

namespace gshmem::ofi {
namespace {

using State = MessageBuffer::State;

/// MessageHeader::request contains the index of the buffer and the number of its request.
constexpr std::uint64_t kIndexBits = 16;

}  // namespace

void ActiveMessages::issue(Operation& operation, bool) {
  if (operation.wqe.is_atomic()) {
    if (request_atomic(operation)) operation.state = Operation::State::kIssued;
    return;
  }
  for (;;) {
    const Chunk chunk = operation.next_chunk(sizes_.payload);
    if (chunk.bytes == 0) {
      operation.state = Operation::State::kIssued;
      return;
    }
    if (!request_chunk(operation, chunk)) return;
    operation.advance(chunk.bytes);
  }
}

std::string ActiveMessages::awaits(const Operation& operation) const {
  struct Kind {
    State state;
    const char* what;
  };
  const Kind kinds[] = {{State::kReading, "being copied"},
                        {State::kToSend, "refused by the provider"},
                        {State::kSent, "not sent by the provider"},
                        {State::kAwaiting, "sent and not answered"}};
  std::string text;
  for (const Kind& kind : kinds) {
    const auto waits = [&](const MessageBuffer& request) {
      return request.operation == &operation && request.state == kind.state;
    };
    const auto count = std::ranges::count_if(requests_.all(), waits);
    if (count > 0)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " message(s) " + kind.what;
  }
  return text;
}

MessageBuffer* ActiveMessages::acquire_request(Peer& peer, Operation* operation) {
  if (peer.requests >= sizes_.window) return nullptr;
  MessageBuffer* buffer = requests_.acquire(peer.pe);
  if (buffer == nullptr) return nullptr;
  ++peer.requests;
  buffer->operation = operation;
  const auto index = static_cast<std::uint64_t>(buffer->index);
  buffer->request = next_request_++ << kIndexBits | index;
  buffer->answered = false;
  if (operation != nullptr) operation->piece_begins();
  return buffer;
}

MessageHeader ActiveMessages::header_of(const MessageBuffer& buffer, Outbound& outbound) {
  MessageHeader header;
  header.job = setup_.job;
  header.source = static_cast<std::uint32_t>(setup_.pe);
  header.queue = outbound.twin;
  header.number = outbound.next++;
  header.request = buffer.request;
  return header;
}

bool ActiveMessages::request_chunk(Operation& operation, const Chunk& chunk) {
  MessageBuffer* buffer = acquire_request(*operation.peer, &operation);
  if (buffer == nullptr) return false;
  const bool writes = operation.writes();
  MessageHeader header = header_of(*buffer, *operation.outbound);
  header.kind = writes ? MessageKind::kWrite : MessageKind::kRead;
  header.key = operation.wqe.remote_key;
  header.offset = chunk.remote;
  header.bytes = chunk.bytes;
  buffer->set_header(header);
  buffer->local = chunk.local;
  if (writes && chunk.payload == nullptr) {
    buffer->state = State::kReading;
    start_copy(*buffer,
               [&] { return setup_.heap.start_read(chunk.local, buffer->payload(), chunk.bytes); });
    return true;
  }
  if (writes) std::memcpy(buffer->payload(), chunk.payload, chunk.bytes);
  send(*buffer);
  return true;
}

bool ActiveMessages::request_atomic(Operation& operation) {
  MessageBuffer* buffer = acquire_request(*operation.peer, &operation);
  if (buffer == nullptr) return false;
  const nic::Wqe& wqe = operation.wqe;
  MessageHeader header = header_of(*buffer, *operation.outbound);
  header.kind = MessageKind::kAtomic;
  header.atomic = wqe.kind;
  header.unwanted = is_unwanted(wqe);
  header.key = wqe.remote_key;
  if (operation.pieces > 0) header.group = static_cast<std::uint32_t>(operation.group);
  header.pieces = operation.pieces;
  header.offset = wqe.remote_address;
  header.bytes = wqe.length;
  header.operands = wqe;
  buffer->set_header(header);
  send(*buffer);
  return true;
}

void ActiveMessages::abandon(Peer& peer, Outbound& outbound) { send_abandon(peer, outbound); }

void ActiveMessages::send_abandon(Peer& peer, Outbound& outbound) {
  MessageBuffer* buffer = acquire_request(peer, nullptr);
  if (buffer == nullptr) {
    to_abandon_.push_back({&peer, &outbound});
    return;
  }
  MessageHeader header = header_of(*buffer, outbound);
  header.kind = MessageKind::kAbandon;
  buffer->set_header(header);
  send(*buffer);
}

void ActiveMessages::take_reply(MessageBuffer& buffer) {
  const MessageHeader& header = buffer.header();
  const std::size_t index = header.request & ((1u << kIndexBits) - 1);
  MessageBuffer* const request = index < requests_.count() ? &requests_[index] : nullptr;
  const bool asked = request != nullptr && request->request == header.request && !request->answered;
  if (!asked) {  // it was abandoned in the meantime
    post_receive(buffer);
    return;
  }
  buffer.answers = request;
  if (request->operation == nullptr) {  // its queue was abandoned
    end_reply(buffer, {});
  } else if (header.syndrome != 0) {
    end_reply(buffer, failure(static_cast<abi::Syndrome>(header.syndrome),
                              request->operation->describe() + ": refused by the target"));
  } else {
    take_result(buffer, *request);
  }
}

void ActiveMessages::take_result(MessageBuffer& buffer, MessageBuffer& request) {
  const MessageHeader& header = buffer.header();
  const nic::Wqe& wqe = request.operation->wqe;
  const bool reads = wqe.kind == nic::WqeKind::kRead;
  if (reads && header.bytes != request.header().bytes) {
    end_reply(buffer, failure(abi::Syndrome::kBadResponse,
                              request.operation->describe() + ": refused by the target"));
    return;
  }
  if (reads) {
    start_copy(buffer, [&] {
      return setup_.heap.start_write(request.local, buffer.payload(), header.bytes);
    });
  } else if (wqe.is_atomic() && !is_unwanted(wqe)) {
    start_copy(buffer, [&] {
      return start_result(setup_.heap, wqe, header.old,
                          buffer.memory + offsetof(MessageHeader, old));
    });
  } else {
    end_reply(buffer, {});
  }
}

void ActiveMessages::end_reply(MessageBuffer& buffer, const Failure& why) {
  MessageBuffer& request = *buffer.answers;
  if (request.request == buffer.header().request && !request.answered) finish_request(request, why);
  post_receive(buffer);
}

void ActiveMessages::finish_request(MessageBuffer& request, const Failure& why) {
  Peer& peer = peer_of(request);
  --peer.requests;
  request.answered = true;
  if (Operation* const operation = std::exchange(request.operation, nullptr)) {
    // The target has counted the immediates, or will never count them.
    if (operation->wqe.is_atomic()) peer.immediates -= std::exchange(operation->pieces, 0);
    if (why)
      operation->piece_fails(why);
    else
      operation->piece_ends();
  }
  // In the other states the buffer is still in use, and its user releases it later.
  if (request.state == State::kAwaiting) release(request);
}

}  // namespace gshmem::ofi

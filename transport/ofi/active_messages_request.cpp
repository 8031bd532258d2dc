// The side of active messages that asks.
#include "transport/ofi/active_messages.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace gshmem::ofi {

using State = MessageBuffer::State;

void ActiveMessages::issue(Operation& operation) {
  if (operation.wqe.is_atomic()) {
    if (request_atomic(operation)) operation.state = Operation::State::kIssued;
    return;
  }
  for (;;) {
    const Chunk chunk = operation.next_chunk(payload_);
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
    const auto count = std::count_if(requests_.all().begin(), requests_.all().end(), waits);
    if (count > 0)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " message(s) " + kind.what;
  }
  return text;
}

MessageBuffer* ActiveMessages::acquire_request(Operation& operation) {
  std::size_t& unanswered = unanswered_[static_cast<std::size_t>(operation.peer->pe)];
  if (unanswered >= window_) return nullptr;
  MessageBuffer* buffer = requests_.acquire();
  if (buffer == nullptr) return nullptr;
  ++unanswered;
  buffer->pe = operation.peer->pe;
  buffer->operation = &operation;
  buffer->request = next_request_++;
  buffer->answered = false;
  operation.piece_begins();
  return buffer;
}

bool ActiveMessages::request_chunk(Operation& operation, const Chunk& chunk) {
  MessageBuffer* buffer = acquire_request(operation);
  if (buffer == nullptr) return false;
  const bool writes = operation.wqe.kind == nic::WqeKind::kWrite;
  MessageHeader header;
  header.kind = writes ? MessageKind::kWrite : MessageKind::kRead;
  header.source = static_cast<std::uint32_t>(setup_.pe);
  header.key = operation.wqe.remote_key;
  header.request = buffer->request;
  header.offset = chunk.remote;
  header.bytes = chunk.bytes;
  buffer->set_header(header);
  buffer->local = chunk.local;
  if (writes && chunk.payload == nullptr) {
    buffer->state = State::kReading;
    start_copy(*buffer, chunk.local, chunk.bytes);
    return true;
  }
  if (writes) std::memcpy(buffer->payload(), chunk.payload, chunk.bytes);
  send(*buffer);
  return true;
}

bool ActiveMessages::request_atomic(Operation& operation) {
  MessageBuffer* buffer = acquire_request(operation);
  if (buffer == nullptr) return false;
  const nic::Wqe& wqe = operation.wqe;
  MessageHeader header;
  header.kind = MessageKind::kAtomic;
  header.atomic = wqe.kind;
  header.source = static_cast<std::uint32_t>(setup_.pe);
  header.key = wqe.remote_key;
  header.request = buffer->request;
  header.offset = wqe.remote_address;
  header.bytes = wqe.length;
  header.swap_or_add = wqe.swap_or_add;
  header.compare = wqe.compare;
  header.swap_mask = wqe.swap_mask;
  header.compare_mask = wqe.compare_mask;
  header.boundary = wqe.boundary;
  buffer->set_header(header);
  send(*buffer);
  return true;
}

void ActiveMessages::take_reply(MessageBuffer& buffer, const MessageHeader& header) {
  const auto same = [&](const MessageBuffer& request) {
    return request.operation != nullptr && request.request == header.request;
  };
  const auto found = std::find_if(requests_.all().begin(), requests_.all().end(), same);
  if (found == requests_.all().end()) {  // given up meanwhile
    post_receive(buffer);
    return;
  }
  const nic::Wqe& wqe = found->operation->wqe;
  const bool reads = wqe.kind == nic::WqeKind::kRead && header.syndrome == 0;
  if (reads && header.bytes == found->header().bytes) {
    buffer.answers = &*found;
    buffer.request = header.request;
    buffer.state = State::kWriting;
    start_copy(buffer, found->local, header.bytes);
    return;
  }
  Failure why;
  if (header.syndrome != 0 || reads) {
    const auto syndrome =
        reads ? abi::Syndrome::kBadResponse : static_cast<abi::Syndrome>(header.syndrome);
    why = failure(syndrome, found->operation->describe() + ": refused by the target");
  } else if (wqe.is_atomic()) {
    try {
      write_result(setup_.heap, wqe, header.old);
    } catch (const Error& error) {
      why = failure(abi::Syndrome::kLocalProtection, error.what());
    }
  }
  finish_request(*found, why);
  post_receive(buffer);
}

void ActiveMessages::finish_request(MessageBuffer& request, const Failure& why) {
  --unanswered_[static_cast<std::size_t>(request.pe)];
  request.operation->piece_ends(why);
  request.operation = nullptr;
  request.answered = true;
  // In the other states somebody still uses the buffer, and releases it.
  if (request.state == State::kAwaiting) requests_.release(request);
}

void ActiveMessages::peer_lost(int pe) {
  const Failure why =
      failure(abi::Syndrome::kRetryExceeded, setup_.peers[static_cast<std::size_t>(pe)].lost);
  for (MessageBuffer& request : requests_.all())
    if (request.operation != nullptr && request.pe == pe) finish_request(request, why);
}

}  // namespace gshmem::ofi

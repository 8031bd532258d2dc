// The side of active messages that is asked: does to its own heap what a request says.
#include "transport/ofi/active_messages.h"

namespace gshmem::ofi {

using State = MessageBuffer::State;

std::uint8_t ActiveMessages::check(const MessageHeader& header) const {
  const bool word = header.bytes == 4 || header.bytes == 8;
  const bool fits =
      header.bytes <= setup_.heap_bytes && header.offset <= setup_.heap_bytes - header.bytes;
  abi::Syndrome syndrome{};
  if (header.key != setup_.remote_key || !fits) {
    syndrome = abi::Syndrome::kRemoteAccess;
  } else if (header.kind == MessageKind::kAtomic) {
    if (!word || header.offset % header.bytes != 0) syndrome = abi::Syndrome::kRemoteRequest;
  } else if (header.bytes > payload_) {
    syndrome = abi::Syndrome::kRemoteRequest;
  }
  return static_cast<std::uint8_t>(syndrome);
}

void ActiveMessages::serve(MessageBuffer& buffer) {
  MessageBuffer* answer = replies_.acquire();
  if (answer == nullptr) {
    buffer.state = State::kWaiting;
    to_serve_.push_back(&buffer);
    return;
  }
  MessageHeader header = buffer.header();
  buffer.pe = answer->pe = static_cast<int>(header.source);
  header.syndrome = check(header);
  if (header.syndrome != 0) {
    header.bytes = 0;
  } else if (header.kind == MessageKind::kWrite) {
    buffer.answers = answer;
    buffer.state = State::kWriting;
    start_copy(buffer, header.offset, header.bytes);
    return;
  } else if (header.kind == MessageKind::kRead) {
    header.kind = MessageKind::kReply;
    answer->set_header(header);
    answer->state = State::kReading;
    post_receive(buffer);
    start_copy(*answer, header.offset, header.bytes);
    return;
  } else {
    header = carry_out(header);
  }
  reply(*answer, buffer, header);
}

/// An atomic; the header comes back with what was there.
MessageHeader ActiveMessages::carry_out(MessageHeader header) {
  nic::Wqe wqe;
  wqe.kind = header.atomic;
  wqe.length = header.bytes;
  wqe.swap_or_add = header.swap_or_add;
  wqe.compare = header.compare;
  wqe.swap_mask = header.swap_mask;
  wqe.compare_mask = header.compare_mask;
  wqe.boundary = header.boundary;
  try {
    header.old = setup_.heap.atomic(header.offset, wqe);
  } catch (const Error& error) {
    GSHMEM_WARN("atomic for PE %u: %s", header.source, error.what());
    header.syndrome = static_cast<std::uint8_t>(abi::Syndrome::kRemoteOperation);
  }
  return header;
}

/// Sends an answer without payload and takes the next message into the request's buffer.
void ActiveMessages::reply(MessageBuffer& answer, MessageBuffer& request, MessageHeader header) {
  header.kind = MessageKind::kReply;
  header.bytes = 0;
  answer.set_header(header);
  send(answer);
  post_receive(request);
}

}  // namespace gshmem::ofi

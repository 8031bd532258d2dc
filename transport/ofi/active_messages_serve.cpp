// The executing side of active messages: it executes requests on its own heap.
#include "transport/ofi/active_messages.h"

#include <utility>

namespace gshmem::ofi {

using State = MessageBuffer::State;

std::uint8_t ActiveMessages::check(const MessageHeader& header) const {
  const bool word = header.bytes == 4 || header.bytes == 8;
  const Memory* const beside = header.offset < setup_.heap_bytes
                                   ? nullptr
                                   : setup_.memories.find(header.offset, header.bytes);
  const bool is_local = beside != nullptr && beside->local;
  const std::uint32_t key = beside != nullptr ? beside->key : setup_.remote_key;
  const bool fits = beside != nullptr || in_range(header.offset, header.bytes, setup_.heap_bytes);
  abi::Syndrome syndrome{};
  if (header.key != key || !fits || is_local) {
    syndrome = abi::Syndrome::kRemoteAccess;
  } else if (header.kind == MessageKind::kAtomic) {
    if (!word || header.offset % header.bytes != 0) syndrome = abi::Syndrome::kRemoteRequest;
  } else if (header.bytes > sizes_.payload) {
    syndrome = abi::Syndrome::kRemoteRequest;
  }
  return static_cast<std::uint8_t>(syndrome);
}

MessageHeader ActiveMessages::answer_to(const MessageHeader& request) const {
  MessageHeader header = request;
  header.kind = MessageKind::kReply;
  header.source = static_cast<std::uint32_t>(setup_.pe);
  return header;
}

void ActiveMessages::arrived(std::uint32_t immediate) {
  const std::uint32_t queue = immediate & ((1u << kGroupShift) - 1);
  if (queue >= served_.size()) {
    GSHMEM_LOG_LIMITED(LogLevel::kWarn, "immediate 0x%x that no PE sends: ignored", immediate);
    return;
  }
  served_[queue].arrived(immediate >> kGroupShift);
  serve(served_[queue]);
}

void ActiveMessages::serve(Served& queue) {
  while (MessageBuffer* const buffer = queue.next()) {
    if (begin(*buffer, queue)) continue;
    queue.put_back(*buffer);
    if (!queue.listed) to_serve_.push_back(&queue);
    queue.listed = true;
    return;
  }
}

/// Returns false if there is no buffer for the answer.
bool ActiveMessages::begin(MessageBuffer& buffer, Served& queue) {
  MessageBuffer* const answer = replies_.acquire(buffer.pe);
  if (answer == nullptr) return false;
  answer->answers = &buffer;
  buffer.answers = answer;
  buffer.begun = !queue.abandoned();
  const MessageHeader& header = buffer.header();
  if (queue.abandoned()) {
    reply(*answer, buffer, static_cast<std::uint8_t>(abi::Syndrome::kFlush));
    return true;
  }
  if (const std::uint8_t syndrome = check(header)) {
    refuse(*answer, buffer, syndrome);
    return true;
  }
  switch (header.kind) {
    case MessageKind::kWrite:
      start_copy(buffer, [&] {
        return setup_.heap.start_write(header.offset, buffer.payload(), header.bytes);
      });
      break;
    case MessageKind::kRead:
      answer->set_header(answer_to(header));
      start_copy(*answer, [&] {
        return setup_.heap.start_read(header.offset, answer->payload(), header.bytes);
      });
      break;
    default:
      if (setup_.flusher != nullptr)
        to_flush_.push_back(&buffer);
      else
        carry_out(buffer);
  }
  return true;
}

void ActiveMessages::carry_out(MessageBuffer& atomic) {
  const MessageHeader& header = atomic.header();
  nic::Wqe wqe;
  wqe.kind = header.atomic;
  wqe.length = header.bytes;
  static_cast<nic::AtomicOperands&>(wqe) = header.operands;
  start_copy(atomic, [&] {
    return setup_.heap.start_atomic(header.offset, wqe, header.unwanted ? nullptr : &atomic.old);
  });
}

/// Requests that arrived in the meantime wait for another flush.
void ActiveMessages::flushed(const Failure& why) {
  for (MessageBuffer* const atomic : std::exchange(flushing_, {})) {
    if (served_[atomic->header().queue].abandoned())
      refuse(*atomic->answers, *atomic, static_cast<std::uint8_t>(abi::Syndrome::kFlush));
    else if (why)
      refuse(*atomic->answers, *atomic, why.syndrome);
    else
      carry_out(*atomic);
  }
}

void ActiveMessages::end_served(MessageBuffer& request) {
  Served& queue = served_[request.header().queue];
  if (std::exchange(request.begun, false)) queue.ended(request.header());
  post_receive(request);
  serve(queue);
}

/// Refuses a request. After an error of a queue none of its requests are executed.
void ActiveMessages::refuse(MessageBuffer& answer, MessageBuffer& request, std::uint8_t syndrome) {
  served_[request.header().queue].abandon();
  reply(answer, request, syndrome);
}

/// Sends an answer without payload.
void ActiveMessages::reply(MessageBuffer& answer, MessageBuffer& request, std::uint8_t syndrome) {
  MessageHeader header = answer_to(request.header());
  header.syndrome = syndrome;
  header.bytes = 0;
  header.old = request.old;
  answer.set_header(header);
  send(answer);
  end_served(request);
}

void ActiveMessages::peer_lost(int pe) {
  const Failure why =
      failure(abi::Syndrome::kRetryExceeded, setup_.peers[static_cast<std::size_t>(pe)].lost);
  for (MessageBuffer& request : requests_.all())
    if (request.pe == pe && !request.answered) finish_request(request, why);
  for (Served& queue : served_) {
    if (queue.pe != pe) continue;
    queue.abandon();
    serve(queue);
  }
}

}  // namespace gshmem::ofi

// Construction, copies and messages. The code for requests and answers has files of its own.
#include "transport/ofi/active_messages.h"

#include "transport/ofi/provider_error.h"

#include <sys/uio.h>

#include <algorithm>
#include <utility>

namespace gshmem::ofi {
namespace {

using Role = MessageBuffer::Role;
using State = MessageBuffer::State;

MessageSizes sizes_for(const ActiveMessages::Setup& setup) {
  const Fabric& fabric = setup.rails.first();
  return message_sizes(setup.peers.size(), setup.carries_data, fabric.info().rx_attr->size,
                       fabric.able().max_send);
}

std::size_t receives_for(const ActiveMessages::Setup& setup, const MessageSizes& sizes,
                         std::size_t rail) {
  return sizes.receives(
      static_cast<std::size_t>(std::count_if(setup.peers.begin(), setup.peers.end(),
                                             [&](const Peer& peer) { return peer.home == rail; })));
}
std::size_t all_receives_for(const ActiveMessages::Setup& setup, const MessageSizes& sizes) {
  std::size_t all = 0;
  for (std::size_t rail = 0; rail < setup.rails.count(); ++rail)
    all += receives_for(setup, sizes, rail);
  return all;
}

std::size_t payload_of(const MessageHeader& header) {
  const bool writes = header.kind == MessageKind::kWrite;
  return writes || header.kind == MessageKind::kReply ? header.bytes : 0;
}

}  // namespace

ActiveMessages::ActiveMessages(const Setup& setup)
    : setup_(setup),
      sizes_(sizes_for(setup)),
      requests_(setup.rails, setup.heap, Role::kRequest,
                {sizes_.requests, sizes_.payload, setup.peers.size()}, *this),
      replies_(setup.rails, setup.heap, Role::kReply,
               {sizes_.requests, sizes_.payload, setup.peers.size()}, *this),
      receives_(setup.rails, setup.heap, Role::kReceive,
                {all_receives_for(setup, sizes_), sizes_.payload, setup.peers.size()}, *this),
      served_(setup.max_queues) {
  std::size_t next = 0;
  for (std::size_t rail = 0; rail < setup.rails.count(); ++rail) {
    setup_.rails[rail].hand_immediates_to(this);
    for (std::size_t n = receives_for(setup, sizes_, rail); n > 0; --n) {
      MessageBuffer& buffer = receives_[next++];
      buffer.rail = rail;
      post_receive(buffer);
    }
  }
}

Peer& ActiveMessages::peer_of(const MessageBuffer& buffer) {
  return setup_.peers[static_cast<std::size_t>(buffer.pe)];
}

bool ActiveMessages::poll_copies() {
  if (copying_.empty()) return false;
  bool busy = false;
  setup_.heap.poll();
  // Copies that end may start others.
  for (MessageBuffer* buffer : std::exchange(copying_, {})) {
    try {
      if (!setup_.heap.done(buffer->ticket)) {
        copying_.push_back(buffer);
        continue;
      }
    } catch (const Error& error) {
      copy_failed(*buffer, error);
      continue;
    }
    copy_done(*buffer);
    busy = true;
  }
  return busy;
}

void ActiveMessages::copy_done(MessageBuffer& buffer) {
  if (buffer.role == Role::kReply) {
    MessageBuffer& request = *buffer.answers;
    send(buffer);
    end_served(request);
  } else if (buffer.role == Role::kRequest) {
    if (buffer.operation == nullptr)
      release(buffer);  // it was abandoned in the meantime
    else
      send(buffer);
  } else if (buffer.header().kind == MessageKind::kReply) {
    end_reply(buffer, {});
  } else {
    reply(*buffer.answers, buffer, 0);
  }
}

void ActiveMessages::copy_failed(MessageBuffer& buffer, const Error& error) {
  GSHMEM_WARN("staging of a message of PE %d: %s", buffer.pe, error.what());
  const Failure local = failure(abi::Syndrome::kLocalProtection, error.what());
  constexpr auto kRemote = static_cast<std::uint8_t>(abi::Syndrome::kRemoteOperation);
  if (buffer.role == Role::kRequest) {
    if (buffer.operation != nullptr) finish_request(buffer, local);
    release(buffer);
  } else if (buffer.role == Role::kReply) {
    refuse(buffer, *buffer.answers, kRemote);
  } else if (buffer.header().kind == MessageKind::kReply) {
    end_reply(buffer, local);
  } else {
    refuse(*buffer.answers, buffer, kRemote);
  }
}

void ActiveMessages::post_receive(MessageBuffer& buffer) {
  const ssize_t result = fi_recv(
      setup_.rails[buffer.rail].endpoint(), buffer.memory, sizeof(MessageHeader) + sizes_.payload,
      receives_.descriptor(buffer.rail), FI_ADDR_UNSPEC, static_cast<Context*>(&buffer));
  if (result == 0) return;
  if (result == -FI_EAGAIN) {
    to_post_.push_back(&buffer);
    return;
  }
  Library::get().check(result, "fi_recv", "The endpoint is lost; restart the job");
}

void ActiveMessages::release(MessageBuffer& buffer) {
  (buffer.role == Role::kRequest ? requests_ : replies_).release(buffer);
}

void ActiveMessages::send(MessageBuffer& buffer) {
  Peer& peer = peer_of(buffer);
  const bool request = buffer.role == Role::kRequest;
  if (!peer.lost.empty()) {
    if (request && !buffer.answered)
      finish_request(buffer, failure(abi::Syndrome::kRetryExceeded, peer.lost));
    release(buffer);
    return;
  }
  const std::size_t rail = peer.home;
  iovec where{buffer.memory, sizeof(MessageHeader) + payload_of(buffer.header())};
  void* descriptor = (request ? requests_ : replies_).descriptor(rail);
  fi_msg message{};
  message.msg_iov = &where;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = peer.routes[rail].address;
  message.context = static_cast<Context*>(&buffer);
  // The reply confirms delivery, so the completion only has to tell that the buffer is free again.
  const ssize_t result = fi_sendmsg(setup_.rails[rail].endpoint(), &message, FI_COMPLETION);
  buffer.state = State::kSent;
  if (result == 0) return;
  if (result == -FI_EAGAIN) return send_again(buffer);
  const int error = static_cast<int>(-result);
  const std::string text = Library::get().text(error);
  sent(buffer, {.error = error, .text = text});
}

void ActiveMessages::send_again(MessageBuffer& buffer) {
  buffer.state = State::kToSend;
  to_send_.push_back(&buffer);
}

void ActiveMessages::completed(Context& context, const Completion& completion) {
  auto& buffer = static_cast<MessageBuffer&>(context);
  if (buffer.role == Role::kReceive)
    received(buffer, completion);
  else
    sent(buffer, completion);
}

void ActiveMessages::sent(MessageBuffer& buffer, const Completion& completion) {
  if (completion.error != 0) {
    ProviderError provider_error =
        judge(setup_.rails.first().info(), completion, strprintf("message to PE %d", buffer.pe));
    if (provider_error.transient) return send_again(buffer);
    if (provider_error.peer_lost) lose(peer_of(buffer), provider_error.failure.text);
    if (buffer.role == Role::kReply)
      GSHMEM_DEBUG("reply to PE %d: %s", buffer.pe, std::string(completion.text).c_str());
    else if (!buffer.answered)
      finish_request(buffer, provider_error.failure);
  }
  if (buffer.role == Role::kReply) {
    release(buffer);
    return;
  }
  buffer.state = State::kAwaiting;
  if (buffer.answered) release(buffer);
}

bool ActiveMessages::is_known(const MessageBuffer& buffer, const Completion& completion) const {
  const MessageHeader& header = buffer.header();
  return completion.error == 0 && completion.bytes >= sizeof(header) && header.job == setup_.job &&
         header.epoch == 0 && header.source < setup_.peers.size() &&
         completion.bytes == sizeof(header) + payload_of(header) &&
         (header.kind == MessageKind::kReply || header.queue < served_.size());
}

void ActiveMessages::received(MessageBuffer& buffer, const Completion& completion) {
  if (!is_known(buffer, completion)) {
    GSHMEM_LOG_LIMITED(LogLevel::kWarn, "message of %zu bytes that no PE sends: %s",
                       completion.bytes,
                       completion.error != 0 ? std::string(completion.text).c_str() : "ignored");
    post_receive(buffer);
    return;
  }
  const MessageHeader& header = buffer.header();
  buffer.pe = static_cast<int>(header.source);
  if (header.kind == MessageKind::kReply) {
    take_reply(buffer);
    return;
  }
  Served& queue = served_[header.queue];
  queue.pe = buffer.pe;
  // An abandonment is processed out of order: messages before it may wait for messages that never
  // arrive.
  if (header.kind == MessageKind::kAbandon) queue.abandon();
  if (queue.take(buffer)) {
    serve(queue);
  } else {
    GSHMEM_LOG_LIMITED(LogLevel::kWarn, "message %u of PE %d's queue arrived twice: ignored",
                       header.number, buffer.pe);
    post_receive(buffer);
  }
}

bool ActiveMessages::progress() {
  bool busy = poll_copies();
  if (!to_flush_.empty() && flushing_.empty()) {
    flushing_.swap(to_flush_);
    setup_.flusher->flush_own(*this);
  }
  if (to_post_.empty() && to_send_.empty() && to_abandon_.empty() && to_serve_.empty()) return busy;
  for (MessageBuffer* buffer : std::exchange(to_post_, {})) post_receive(*buffer);
  for (MessageBuffer* buffer : std::exchange(to_send_, {})) {
    send(*buffer);
    busy |= buffer->state != State::kToSend;
  }
  for (const Abandoned& abandoned : std::exchange(to_abandon_, {}))
    send_abandon(*abandoned.peer, *abandoned.outbound);
  for (Served* queue : std::exchange(to_serve_, {})) {
    queue->listed = false;
    serve(*queue);
    busy |= !queue->listed;
  }
  return busy;
}

}  // namespace gshmem::ofi

// Construction, copies and messages; requests and answers have files of their own.
#include "transport/ofi/active_messages.h"

#include <sys/uio.h>

#include <algorithm>

namespace gshmem::ofi {
namespace {

using Role = MessageBuffer::Role;
using State = MessageBuffer::State;

constexpr std::size_t kRequests = 32, kReplies = 32;

/// Requests to one peer that may be unanswered. Each PE posts receives for all of them, so that it
/// is less in large jobs.
std::size_t window_for(std::size_t peers) { return std::clamp<std::size_t>(256 / peers, 1, 8); }

std::size_t payload_of(const MessageHeader& header) {
  const bool carries = header.kind == MessageKind::kWrite || header.kind == MessageKind::kReply;
  return carries ? header.bytes : 0;
}

}  // namespace

ActiveMessages::ActiveMessages(const Setup& setup)
    : setup_(setup),
      window_(window_for(setup.peers.size())),
      requests_(setup.fabric, setup.heap, Role::kRequest, kRequests, *this),
      replies_(setup.fabric, setup.heap, Role::kReply, kReplies, *this),
      receives_(setup.fabric, setup.heap, Role::kReceive, setup.peers.size() * window_ + kRequests,
                *this),
      unanswered_(setup.peers.size()) {
  for (MessageBuffer& buffer : receives_.all()) post_receive(buffer);
}

void ActiveMessages::start_copy(MessageBuffer& buffer, std::uint64_t offset, std::size_t bytes) {
  try {
    buffer.ticket = buffer.state == State::kReading
                        ? setup_.heap.start_read(offset, buffer.payload(), bytes)
                        : setup_.heap.start_write(offset, buffer.payload(), bytes);
  } catch (const Error& error) {
    copy_failed(buffer, error);
    return;
  }
  if (buffer.ticket == kNoTicket)
    copy_done(buffer);
  else
    copying_.push_back(&buffer);
}

bool ActiveMessages::poll_copies() {
  bool busy = false;
  for (std::size_t i = 0; i < copying_.size();) {
    MessageBuffer& buffer = *copying_[i];
    try {
      if (!setup_.heap.done(buffer.ticket)) {
        ++i;
        continue;
      }
    } catch (const Error& error) {
      copying_.erase(copying_.begin() + static_cast<std::ptrdiff_t>(i));
      copy_failed(buffer, error);
      continue;
    }
    copying_.erase(copying_.begin() + static_cast<std::ptrdiff_t>(i));
    copy_done(buffer);
    busy = true;
  }
  return busy;
}

void ActiveMessages::copy_done(MessageBuffer& buffer) {
  if (buffer.role != Role::kReceive) {
    if (buffer.role == Role::kRequest && buffer.operation == nullptr)
      requests_.release(buffer);  // given up meanwhile
    else
      send(buffer);
    return;
  }
  const MessageHeader header = buffer.header();
  if (header.kind == MessageKind::kReply) {
    MessageBuffer& request = *buffer.answers;
    if (request.operation != nullptr && request.request == buffer.request)
      finish_request(request, {});
    post_receive(buffer);
  } else {
    reply(*buffer.answers, buffer, header);
  }
}

void ActiveMessages::copy_failed(MessageBuffer& buffer, const Error& error) {
  GSHMEM_WARN("staging of a message of PE %d: %s", buffer.pe, error.what());
  const Failure local = failure(abi::Syndrome::kLocalProtection, error.what());
  MessageHeader header = buffer.header();
  if (buffer.role == Role::kRequest) {
    if (buffer.operation != nullptr) finish_request(buffer, local);
    requests_.release(buffer);
  } else if (buffer.role == Role::kReceive && header.kind == MessageKind::kReply) {
    MessageBuffer& request = *buffer.answers;
    if (request.operation != nullptr && request.request == buffer.request)
      finish_request(request, local);
    post_receive(buffer);
  } else {
    header.syndrome = static_cast<std::uint8_t>(abi::Syndrome::kRemoteOperation);
    header.bytes = 0;
    if (buffer.role == Role::kReceive) {
      reply(*buffer.answers, buffer, header);
    } else {
      buffer.set_header(header);
      send(buffer);
    }
  }
}

void ActiveMessages::post_receive(MessageBuffer& buffer) {
  buffer.answers = nullptr;
  const ssize_t result =
      fi_recv(setup_.fabric.endpoint(), buffer.memory, kMessageBytes, receives_.descriptor(),
              FI_ADDR_UNSPEC, static_cast<Context*>(&buffer));
  buffer.state = State::kPosted;
  if (result == 0) return;
  if (result == -FI_EAGAIN) {
    to_post_.push_back(&buffer);
    return;
  }
  Library::get().check(result, "fi_recv", "The endpoint is lost; restart the job");
}

void ActiveMessages::send(MessageBuffer& buffer) {
  Peer& peer = setup_.peers[static_cast<std::size_t>(buffer.pe)];
  MessageBuffers& home = buffer.role == Role::kRequest ? requests_ : replies_;
  if (!peer.lost.empty() || (buffer.role == Role::kRequest && buffer.operation == nullptr)) {
    if (buffer.operation != nullptr)
      finish_request(buffer, failure(abi::Syndrome::kRetryExceeded, peer.lost));
    home.release(buffer);
    return;
  }
  iovec where{buffer.memory, sizeof(MessageHeader) + payload_of(buffer.header())};
  void* descriptor = home.descriptor();
  fi_msg message{};
  message.msg_iov = &where;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = peer.address;
  message.context = static_cast<Context*>(&buffer);
  // The reply says that it was delivered: the buffer has to be free again, no more.
  const ssize_t result = fi_sendmsg(setup_.fabric.endpoint(), &message, FI_COMPLETION);
  buffer.state = State::kSent;
  if (result == 0) return;
  if (result == -FI_EAGAIN) {
    buffer.state = State::kToSend;
    to_send_.push_back(&buffer);
    return;
  }
  const int error = static_cast<int>(-result);
  sent(buffer, {.error = error, .bytes = 0, .text = Library::get().text(error)});
}

void ActiveMessages::completed(Context& context, const Completion& completion) {
  auto& buffer = static_cast<MessageBuffer&>(context);
  if (buffer.role == Role::kReceive)
    received(buffer, completion);
  else
    sent(buffer, completion);
}

void ActiveMessages::sent(MessageBuffer& buffer, const Completion& completion) {
  if (buffer.role == Role::kReply) {
    if (completion.error != 0)
      GSHMEM_DEBUG("reply to PE %d: %s", buffer.pe, completion.text.c_str());
    replies_.release(buffer);
    return;
  }
  if (completion.error != 0 && buffer.operation != nullptr)
    finish_request(buffer, failure_of_provider(completion, buffer.operation->describe()));
  buffer.state = State::kAwaiting;
  if (buffer.answered) requests_.release(buffer);
}

void ActiveMessages::received(MessageBuffer& buffer, const Completion& completion) {
  const MessageHeader header = buffer.header();
  const bool known = completion.error == 0 && completion.bytes >= sizeof(header) &&
                     header.magic == MessageHeader::kMagic && header.source < setup_.peers.size() &&
                     completion.bytes == sizeof(header) + payload_of(header);
  if (!known) {
    GSHMEM_LOG_LIMITED(LogLevel::kWarn, 3, "message of %zu bytes that no PE sends: %s",
                       completion.bytes,
                       completion.error != 0 ? completion.text.c_str() : "ignored");
    post_receive(buffer);
  } else if (header.kind == MessageKind::kReply) {
    take_reply(buffer, header);
  } else {
    serve(buffer);
  }
}

bool ActiveMessages::progress() {
  bool busy = poll_copies();
  for (std::size_t n = to_post_.size(); n > 0; --n) {
    MessageBuffer* buffer = to_post_.front();
    to_post_.pop_front();
    post_receive(*buffer);
  }
  for (std::size_t n = to_send_.size(); n > 0; --n) {
    MessageBuffer* buffer = to_send_.front();
    to_send_.pop_front();
    send(*buffer);
    busy |= buffer->state != State::kToSend;
  }
  for (std::size_t n = to_serve_.size(); n > 0; --n) {
    MessageBuffer* buffer = to_serve_.front();
    to_serve_.pop_front();
    serve(*buffer);
    busy |= buffer->state != State::kWaiting;
  }
  return busy;
}

}  // namespace gshmem::ofi

// Construction, copies and messages; requests and answers have files of their own.
#include "transport/ofi/active_messages.h"

#include <sys/uio.h>

#include <algorithm>
#include <bit>

namespace gshmem::ofi {
namespace {

using Role = MessageBuffer::Role;
using State = MessageBuffer::State;

/// Requests to one peer that may be unanswered. Each PE posts receives for all of them, so that it
/// is less in large jobs.
std::size_t window_for(std::size_t peers) { return std::clamp<std::size_t>(256 / peers, 1, 16); }

/// Payload of a message, at most; the same on all PEs, as their number is. Above 128 KiB ofi_rxm
/// sends from and to these buffers, below it copies through its own (FI_OFI_RXM_SAR_LIMIT). A copy
/// engine has fewer copies to make. But receives for all peers shall take 16 MiB at most, unless
/// that leaves too little for each.
std::size_t payload_for(std::size_t peers) {
  constexpr std::size_t kReceives = 16 << 20, kLeast = 64 << 10, kMost = 256 << 10;
  return std::clamp(std::bit_floor(kReceives / (peers * window_for(peers))), kLeast, kMost);
}

/// Own requests, and those of others that are being answered, at a time.
std::size_t requests_for(std::size_t peers) {
  return std::min<std::size_t>(32, peers * window_for(peers));
}

std::size_t payload_of(const MessageHeader& header) {
  const bool carries = header.kind == MessageKind::kWrite || header.kind == MessageKind::kReply;
  return carries ? header.bytes : 0;
}

}  // namespace

ActiveMessages::ActiveMessages(const Setup& setup)
    : setup_(setup),
      window_(window_for(setup.peers.size())),
      payload_(payload_for(setup.peers.size())),
      requests_(setup.fabric, setup.heap, Role::kRequest,
                {requests_for(setup.peers.size()), payload_}, *this),
      replies_(setup.fabric, setup.heap, Role::kReply, {requests_for(setup.peers.size()), payload_},
               *this),
      receives_(setup.fabric, setup.heap, Role::kReceive,
                {setup.peers.size() * window_ + requests_for(setup.peers.size()), payload_}, *this),
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
  if (copying_.empty()) return false;
  bool busy = false;
  setup_.heap.poll();
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
      fi_recv(setup_.fabric.endpoint(), buffer.memory, sizeof(MessageHeader) + payload_,
              receives_.descriptor(), FI_ADDR_UNSPEC, static_cast<Context*>(&buffer));
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

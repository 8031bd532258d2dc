#include "host/base/net/stream.h"

#include "host/base/system_call.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gshmem::net {
namespace {

bool would_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

void Stream::send_some() {
  while (!flushed()) {
    const Bytes& frame = *outgoing_.front();
    const ssize_t sent = uninterrupted([&] {
      return ::send(fd_.get(), frame.data() + sent_, frame.size() - sent_,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    });
    if (sent == -1) {
      if (would_wait(errno)) return;
      // The last frames of the other side may still be readable; reading them finds the end. The
      // error is stored, since a socket reports a network error only once.
      send_error_ = errno;
      outgoing_.clear();
      sent_ = 0;
      return;
    }
    sent_ += static_cast<std::size_t>(sent);
    if (sent_ < frame.size()) continue;
    outgoing_.pop_front();
    sent_ = 0;
  }
}

Frame Stream::receive() {
  constexpr std::size_t kStep = std::size_t{1} << 16;
  while (state_ == State::kOpen) {
    const std::size_t want = whole_ > 0 ? whole_ : FrameHeader::kBytes;
    if (have_ == want && whole_ == 0) {
      accept_header();
      continue;
    }
    if (have_ == want) {
      have_ = whole_ = 0;
      return std::make_shared<const Bytes>(std::exchange(incoming_, {}));
    }
    if (have_ == incoming_.size()) incoming_.resize(std::min(want, have_ + std::max(have_, kStep)));
    const std::size_t got = read_some(incoming_.data() + have_, incoming_.size() - have_);
    if (got == 0) return nullptr;
    have_ += got;
    // The header is incomplete: a sender with another protocol may have sent everything already.
    if (whole_ == 0 && !begins_like_a_frame(ByteView(incoming_).first(have_)))
      state_ = State::kStranger;
  }
  return nullptr;
}

void Stream::accept_header() {
  // The decoding succeeds: the first bytes were checked.
  const FrameHeader header =
      decode_header(ByteView(incoming_).first<FrameHeader::kBytes>()).value();
  const bool fail = header.kind == FrameKind::kFail;
  if (header.version != FrameHeader::kVersion && !fail) {
    state_ = State::kOtherVersion;
    other_version_ = header.version;
  } else if (std::ranges::find(accepted_, header.kind) == accepted_.end() || header.epoch != 0 ||
             !frame_length_valid(header.kind, header.bytes)) {
    state_ = State::kStranger;
  } else {
    whole_ = FrameHeader::kBytes + header.bytes;
  }
}

std::size_t Stream::read_some(std::byte* into, std::size_t want) {
  const ssize_t got = uninterrupted([&] { return ::recv(fd_.get(), into, want, MSG_DONTWAIT); });
  if (got > 0) return static_cast<std::size_t>(got);
  if (got < 0 && would_wait(errno)) return 0;
  state_ = State::kClosed;
  error_ = got < 0 ? errno : send_error_;
  return 0;
}

short Stream::poll_events() const { return static_cast<short>(POLLIN | (flushed() ? 0 : POLLOUT)); }

std::string Stream::reason() const {
  if (state_ != State::kClosed) return "it sent what is no frame";
  return error_ == 0 ? "connection closed" : std::strerror(error_);
}

void Stream::finish_sending() { (void)::shutdown(fd_.get(), SHUT_WR); }

}  // namespace gshmem::net

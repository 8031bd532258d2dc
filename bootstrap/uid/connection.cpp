#include "bootstrap/uid/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gshmem::bootstrap {

void Connection::close_with(const std::string& reason) {
  if (state_ != State::kOpen) return;
  state_ = State::kClosed;
  reason_ = reason;
}

void Connection::send_some() {
  while (!outgoing_.empty()) {
    const Bytes& frame = *outgoing_.front();
    const ssize_t sent =
        send(fd_.get(), frame.data() + sent_, frame.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) {
      // Last words of the other side may still be readable: receive() finds the end.
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

std::optional<Connection::Incoming> Connection::receive() {
  if (state_ != State::kOpen) return std::nullopt;
  while (header_have_ < header_bytes_.size()) {
    const std::size_t got =
        read_some(header_bytes_.data() + header_have_, header_bytes_.size() - header_have_);
    if (got == 0) return std::nullopt;
    header_have_ += got;
    if (header_have_ == header_bytes_.size() && !accept_header()) return std::nullopt;
  }
  while (payload_have_ < header_.length) {
    // Memory grows with what has arrived, not with what the header promises.
    constexpr std::size_t kStep = std::size_t{1} << 20;
    payload_.resize(payload_have_ + std::min<std::size_t>(header_.length - payload_have_, kStep));
    const std::size_t got =
        read_some(payload_.data() + payload_have_, payload_.size() - payload_have_);
    if (got == 0) return std::nullopt;
    payload_have_ += got;
  }
  header_have_ = 0;
  payload_have_ = 0;
  return Incoming{header_.type, std::exchange(payload_, {})};
}

bool Connection::accept_header() {
  const auto header = decode_header(std::span<const std::byte, 16>(header_bytes_));
  if (!header) {
    state_ = State::kStranger;
    return false;
  }
  header_ = *header;
  if (header_.version != FrameHeader::kVersion && header_.type != FrameType::kFail) {
    state_ = State::kOtherVersion;
    other_version_ = header_.version;
    return false;
  }
  const bool expected =
      std::find(accepted_.begin(), accepted_.end(), header_.type) != accepted_.end();
  if (expected && frame_length_valid(header_.type, header_.length)) return true;
  state_ = State::kStranger;
  return false;
}

std::size_t Connection::read_some(std::byte* into, std::size_t want) {
  while (true) {
    const ssize_t got = recv(fd_.get(), into, want, MSG_DONTWAIT);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    close_with(got == 0 ? "connection closed" : std::strerror(errno));
    return 0;
  }
}

short Connection::poll_events() const {
  return static_cast<short>(POLLIN | (outgoing_.empty() ? 0 : POLLOUT));
}

void Connection::finish_sending() { (void)shutdown(fd_.get(), SHUT_WR); }

}  // namespace gshmem::bootstrap

#include "transport/hosts/frame_stream.h"

#include <gshmem/abi/state.h>

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace gshmem::hosts {
namespace {

/// No frame is longer: a result with 256 bytes of every PE.
constexpr std::uint64_t kMaxPayload = std::uint64_t{256} * abi::kMaxPes;

}  // namespace

Frame make_frame(FrameHeader header, std::span<const char> payload) {
  header.bytes = payload.size();
  auto bytes = std::make_shared<std::vector<char>>(sizeof(header) + payload.size());
  std::memcpy(bytes->data(), &header, sizeof(header));
  if (!payload.empty()) std::memcpy(bytes->data() + sizeof(header), payload.data(), payload.size());
  return bytes;
}

void FrameStream::end(int error) {
  if (ended_) return;
  ended_ = true;
  error_ = error != 0 ? error : send_error_;
}

void FrameStream::send_some() {
  while (!outgoing_.empty() && !ended_) {
    const std::vector<char>& frame = *outgoing_.front();
    const ssize_t n =
        ::send(fd_, frame.data() + sent_, frame.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) {
      // The other side may have said goodbye before it closed: reading finds out. But a socket
      // tells an error of the network only once.
      send_error_ = errno;
      outgoing_.clear();
      sent_ = 0;
      return;
    }
    sent_ += static_cast<std::size_t>(n);
    if (sent_ < frame.size()) continue;
    outgoing_.pop_front();
    sent_ = 0;
  }
}

bool FrameStream::read_some() {
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t n = ::recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n > 0) {
      incoming_.insert(incoming_.end(), buffer.begin(), buffer.begin() + n);
      return true;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    end(n == 0 ? 0 : errno);
    return false;
  }
}

Frame FrameStream::receive() {
  while (!ended_) {
    if (incoming_.size() >= sizeof(FrameHeader)) {
      FrameHeader header;
      std::memcpy(&header, incoming_.data(), sizeof(header));
      if (header.magic != FrameHeader::kMagic || header.bytes > kMaxPayload) {
        end(EPROTO);
        return nullptr;
      }
      const std::size_t whole = sizeof(header) + header.bytes;
      if (incoming_.size() >= whole) {
        const auto stop = incoming_.begin() + static_cast<std::ptrdiff_t>(whole);
        auto frame = std::make_shared<std::vector<char>>(incoming_.begin(), stop);
        incoming_.erase(incoming_.begin(), stop);
        return frame;
      }
    }
    if (!read_some()) return nullptr;
  }
  return nullptr;
}

}  // namespace gshmem::hosts

// A non-blocking connection that moves whole frames: what is queued goes out and what arrives comes
// in whenever the socket lets it, any number of bytes at a time. Used by both ends. Invariant: a
// frame is handed out only when its type is one the owner asked for and its length is valid.
#pragma once

#include "bootstrap/uid/job.h"
#include "bootstrap/uid/socket.h"

#include <deque>

namespace gshmem::bootstrap {

class Connection {
 public:
  enum class State {
    kOpen,
    kClosed,       ///< the other side is gone; see reason()
    kStranger,     ///< it does not speak this protocol
    kOtherVersion  ///< it does, in another version; see other_version()
  };
  struct Incoming {
    FrameType type;
    Bytes payload;
  };

  /// `accepted`: the frame types that the other side may send.
  Connection(Fd fd, std::vector<FrameType> accepted)
      : fd_(std::move(fd)), accepted_(std::move(accepted)) {}

  void accept_only(std::vector<FrameType> accepted) { accepted_ = std::move(accepted); }
  void queue(Frame frame) { outgoing_.push_back(std::move(frame)); }
  void queue(Bytes frame) { queue(std::make_shared<const Bytes>(std::move(frame))); }

  /// Sends what the socket takes.
  void send_some();
  /// The next whole frame that has arrived, or none (yet). Once the state is not kOpen, none ever.
  [[nodiscard]] std::optional<Incoming> receive();

  [[nodiscard]] bool flushed() const { return outgoing_.empty(); }
  [[nodiscard]] short poll_events() const;
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] int other_version() const { return other_version_; }
  [[nodiscard]] const Fd& fd() const { return fd_; }
  /// Says that nothing more will be sent; the other side can still read what was.
  void finish_sending();

 private:
  /// Reads up to `want` bytes; 0 = none for now, or the state has changed.
  std::size_t read_some(std::byte* into, std::size_t want);
  [[nodiscard]] bool accept_header();
  void close_with(const std::string& reason);

  Fd fd_;
  std::vector<FrameType> accepted_;
  State state_ = State::kOpen;
  std::string reason_;
  int other_version_ = 0;

  std::array<std::byte, FrameHeader::kBytes> header_bytes_{};
  std::size_t header_have_ = 0;
  FrameHeader header_;
  Bytes payload_;
  std::size_t payload_have_ = 0;

  std::deque<Frame> outgoing_;
  std::size_t sent_ = 0;  ///< bytes of outgoing_.front() that are on their way
};

}  // namespace gshmem::bootstrap

// A non-blocking connection that moves whole frames over a TCP or Unix socket: what is queued goes
// out and what arrives comes in whenever the socket lets it, any number of bytes at a time.
// Included by both ends of every connection of a job. Invariant: a frame is given out only when its
// kind is one that the owner asked for and its length is valid. Memory grows with what has arrived,
// not with what a header promises.
#pragma once

#include "host/base/fd.h"
#include "host/base/net/frame.h"

#include <deque>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace gshmem::net {

class Stream {
 public:
  enum class State {
    kOpen,
    kClosed,       ///< the other side is gone; see error()
    kStranger,     ///< it does not speak this protocol
    kOtherVersion  ///< it does, in another version; see other_version()
  };

  /// `accepted`: what the other side may send.
  Stream(Fd fd, std::initializer_list<FrameKind> accepted)
      : fd_(std::move(fd)), accepted_(accepted) {}

  void accept_only(std::initializer_list<FrameKind> accepted) { accepted_ = accepted; }
  void queue(Frame frame) { outgoing_.push_back(std::move(frame)); }
  /// Sends what the socket takes without waiting.
  void send_some();
  /// The next whole frame; null when there is none yet, or none ever: see state().
  [[nodiscard]] Frame receive();
  /// Says that nothing more will be sent; the other side can still read what was.
  void finish_sending();
  /// Queued frames are not sent any more.
  void drop_outgoing() { outgoing_.clear(); }

  /// Nothing is waiting to be sent, or nothing ever will be.
  [[nodiscard]] bool flushed() const { return outgoing_.empty() || state_ == State::kClosed; }
  [[nodiscard]] short poll_events() const;
  [[nodiscard]] State state() const { return state_; }
  /// Of kClosed: an errno; 0 when the other side closed it.
  [[nodiscard]] int error() const { return error_; }
  /// Why it ended, in words.
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] int other_version() const { return other_version_; }
  [[nodiscard]] const Fd& fd() const { return fd_; }
  /// The connection without this object; frames that it has given out were read, and no byte more.
  [[nodiscard]] Fd take_fd() && { return std::move(fd_); }

 private:
  /// Reads up to `want` bytes; 0 = none for now, or the state has changed.
  [[nodiscard]] std::size_t read_some(std::byte* into, std::size_t want);
  void accept_header();

  Fd fd_;
  std::vector<FrameKind> accepted_;
  State state_ = State::kOpen;
  int error_ = 0, send_error_ = 0, other_version_ = 0;
  Bytes incoming_;                    ///< header and payload
  std::size_t have_ = 0, whole_ = 0;  ///< of it; `whole_` is 0 until the header is there
  std::deque<Frame> outgoing_;
  std::size_t sent_ = 0;  ///< bytes of outgoing_.front() that are on their way
};

}  // namespace gshmem::net

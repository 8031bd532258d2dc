// A non-blocking connection that sends and receives whole frames over a TCP or Unix socket. It
// moves any number of bytes whenever the socket is ready. Included by both ends of every connection
// of a job. Invariant: a frame is returned only when its kind is one that the owner accepts and its
// length is valid. Memory grows with the bytes that have arrived, not with what a header promises.
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
    kClosed,       ///< the other side has closed it, or it failed; see error()
    kStranger,     ///< it does not speak this protocol
    kOtherVersion  ///< it does, in another version; see other_version()
  };

  /// `accepted` lists the kinds that the other side may send.
  Stream(Fd fd, std::initializer_list<FrameKind> accepted)
      : fd_(std::move(fd)), accepted_(accepted) {}

  void accept_only(std::initializer_list<FrameKind> accepted) { accepted_ = accepted; }
  void queue(Frame frame) { outgoing_.push_back(std::move(frame)); }
  /// Sends what the socket accepts without waiting.
  void send_some();
  /// Returns the next whole frame. Null when none has arrived yet, or none will: see state().
  [[nodiscard]] Frame receive();
  /// Announces that nothing more will be sent; the other side can still read what was sent.
  void finish_sending();
  /// Drops queued frames.
  void drop_outgoing() { outgoing_.clear(); }

  /// Is nothing waiting to be sent, or will nothing be sent any more?
  [[nodiscard]] bool flushed() const { return outgoing_.empty() || state_ == State::kClosed; }
  [[nodiscard]] short poll_events() const;
  [[nodiscard]] State state() const { return state_; }
  /// Returns the errno of kClosed; 0 when the other side closed the connection.
  [[nodiscard]] int error() const { return error_; }
  /// Returns in words why the connection ended.
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] int other_version() const { return other_version_; }
  [[nodiscard]] const Fd& fd() const { return fd_; }
  /// Takes the connection out of this object. The object has read only the frames that it has
  /// returned, and no byte after them.
  [[nodiscard]] Fd take_fd() && { return std::move(fd_); }

 private:
  /// Reads up to `want` bytes; 0 = none for now, or the state has changed.
  [[nodiscard]] std::size_t read_some(std::byte* into, std::size_t want);
  void accept_header();

  Fd fd_;
  std::vector<FrameKind> accepted_;
  State state_ = State::kOpen;
  int error_ = 0, send_error_ = 0, other_version_ = 0;
  Bytes incoming_;  ///< header and payload
  /// Bytes of it: received, and in total; `whole_` is 0 until the header has arrived.
  std::size_t have_ = 0, whole_ = 0;
  std::deque<Frame> outgoing_;
  std::size_t sent_ = 0;  ///< number of bytes of outgoing_.front() that are sent
};

}  // namespace gshmem::net

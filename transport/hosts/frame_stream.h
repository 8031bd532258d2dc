// Frames between the host threads of PEs, and the non-blocking stream that moves them over a Unix
// or TCP socket. Included by the relay and the monitor. The hosts of a job have one byte order:
// headers travel as they are in memory, and the magic number tells when that is not so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace gshmem::hosts {

enum class FrameKind : std::uint32_t {
  kGoodbye = 1,       ///< the sender leaves on purpose; nothing follows
  kContribution = 2,  ///< to the root: what `pe` brings to collective `sequence`
  kResult = 3,        ///< from the root: `detail` bytes of every PE
  kExpired = 4,       ///< to the root: a PE's time for `sequence` is up, who is missing?
  kMissing = 5,       ///< from the root: `pe` is
  kNews = 6,          ///< `pe` has gone or is stopped; `detail` is a PeerEvent, payload a reason,
                      ///< `sequence` an exit status
  kEnded = 7  ///< the connection to `pe` ended `sequence` microseconds ago, as `detail` says
};

struct FrameHeader {
  static constexpr std::uint32_t kMagic = 0x67736866;
  std::uint32_t magic = kMagic;
  FrameKind kind = FrameKind::kGoodbye;
  std::uint64_t sequence = 0;
  std::int32_t pe = -1;
  std::uint32_t detail = 0;
  std::uint64_t bytes = 0;  ///< of the payload
};
static_assert(sizeof(FrameHeader) == 32);

/// Header and payload as they travel; shared, because one result goes to many.
using Frame = std::shared_ptr<const std::vector<char>>;

/// Sets header.bytes.
[[nodiscard]] Frame make_frame(FrameHeader header, std::span<const char> payload = {});
[[nodiscard]] inline FrameHeader header_of(const Frame& frame) {
  FrameHeader header;
  std::memcpy(&header, frame->data(), sizeof(header));
  return header;
}
[[nodiscard]] inline std::span<const char> payload_of(const Frame& frame) {
  return std::span<const char>(*frame).subspan(sizeof(FrameHeader));
}

class FrameStream {
 public:
  /// `fd` belongs to the caller, and outlives the stream.
  explicit FrameStream(int fd) : fd_(fd) {}

  void queue(Frame frame) { outgoing_.push_back(std::move(frame)); }
  /// Sends what the socket takes without waiting.
  void send_some();
  /// The next whole frame; null when there is none yet, or none ever: see ended().
  [[nodiscard]] Frame receive();
  /// Nothing is waiting to be sent, or nothing ever will be.
  [[nodiscard]] bool flushed() const { return outgoing_.empty() || ended_; }
  [[nodiscard]] bool ended() const { return ended_; }
  /// Why it ended: an errno; 0 when the other side closed it.
  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] int fd() const { return fd_; }
  /// Queued frames are not sent any more.
  void drop_outgoing() { outgoing_.clear(); }

 private:
  /// True when bytes have come.
  bool read_some();
  void end(int error);

  int fd_;
  bool ended_ = false;
  int error_ = 0, send_error_ = 0;
  std::vector<char> incoming_;
  std::deque<Frame> outgoing_;
  std::size_t sent_ = 0;  ///< bytes of outgoing_.front()
};

}  // namespace gshmem::hosts

// What the processes of a job send each other, as bytes: ranks and the root service of a unique id,
// PEs of a host, hosts. Included by what makes or reads frames. Pure: no sockets, no state. Headers
// are big-endian and the same in all versions, so that two versions can tell each other why they do
// not work together. What reads a frame from a stranger never reads beyond it, whatever it says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gshmem::net {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

/// In brackets: the fields of the header that count.
enum class FrameKind : std::uint16_t {
  kHello = 1,         ///< let me in; payload: a cookie, or a nonce where a secret is to be proved
                      ///< [rank; number: of ranks; detail: HelloFlags]
  kWelcome = 2,       ///< all ranks are here [number: of ranks; rank: has the root service, or -1]
  kContribution = 3,  ///< to the root: what is brought to a collective [number: its own]
  kResult = 4,        ///< from the root: what all have brought [number: the collective's]
  kGoodbye = 5,       ///< the sender leaves on purpose; nothing follows
  kExpired = 6,       ///< time is up [number: the collective's; detail: milliseconds]
  kFail = 7,        ///< the job is to fail or has failed, or you are refused: why [detail: status]
  kMissing = 8,     ///< who is, after kExpired [number: the collective's; rank]
  kNews = 9,        ///< of a PE, with a reason [rank; number: exit status; detail: PeerEvent]
  kEnded = 10,      ///< of a connection [rank: of its PE; detail: PeerEvent]
  kPart = 11,       ///< of an alltoall [rank: whose; detail: for whom; number: the collective's]
  kLetter = 12,     ///< from PE to PE [rank: from; detail: to; number: what it is about]
  kChallenge = 13,  ///< answers a kHello; payload: a nonce, and the sender's proof (greeting.h)
  kProof = 14,      ///< answers a kChallenge; payload: the caller's proof
  kNote = 15        ///< for the log of those who wait: why others may be missing
};
/// It has a PE to which it is passed on.
constexpr bool is_addressed(FrameKind kind) {
  return kind == FrameKind::kPart || kind == FrameKind::kLetter;
}

struct FrameHeader {
  static constexpr std::size_t kBytes = 32;
  static constexpr std::uint32_t kMagic = 0x47534842;  // "GSHB"
  static constexpr std::uint16_t kVersion = 4;
  FrameKind kind = FrameKind::kGoodbye;
  std::uint16_t version = kVersion;
  std::uint32_t epoch = 0;  ///< reserved: always 0
  std::uint64_t bytes = 0;  ///< of the payload; 32 bits of them travel
  std::uint64_t number = 0;
  std::int32_t rank = -1;
  std::uint32_t detail = 0;
};

/// In the header of a kHello.
enum HelloFlags : std::uint32_t { kHostsRoot = 1 };  // the root service is in this rank's process

/// Header and payload as they travel. Shared: one result goes to many.
using Frame = std::shared_ptr<const Bytes>;

constexpr std::uint64_t kMaxPayload = std::uint64_t{1} << 28;
constexpr std::size_t kMaxText = 2048;  // of a kFail and a kNote

/// Sets header.bytes.
[[nodiscard]] Frame make_frame(FrameHeader header, ByteView payload = {});
/// A text as payload, cut at kMaxText where `header` is a kFail or a kNote.
[[nodiscard]] Frame make_frame(const FrameHeader& header, std::string_view text);
[[nodiscard]] FrameHeader header_of(const Frame& frame);
[[nodiscard]] inline ByteView payload_of(const Frame& frame) {
  return ByteView(*frame).subspan(FrameHeader::kBytes);
}
/// The payload as a text, with '?' for what does not belong on a terminal.
[[nodiscard]] std::string text_of(const Frame& frame);

/// Empty when the magic is wrong. Says nothing about version, kind and length.
[[nodiscard]] std::optional<FrameHeader> decode_header(
    std::span<const std::byte, FrameHeader::kBytes> bytes);
/// The magic is right, as far as it is there.
[[nodiscard]] bool begins_like_a_frame(ByteView bytes);
/// The kind is known and can have a payload of this length.
[[nodiscard]] bool frame_length_valid(FrameKind kind, std::uint64_t bytes);

}  // namespace gshmem::net

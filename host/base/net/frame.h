// The messages that processes of a job send each other: ranks and the root service of a unique id,
// PEs of a host, hosts. Included by code that makes or reads frames. It is pure: it has no sockets
// and no state. Headers are big-endian and the same in all versions, so that two versions can tell
// each other why they do not work together. Code that reads a frame from a stranger never reads
// beyond its end, whatever its header claims.
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

/// The fields of the header that are used are in brackets.
enum class FrameKind : std::uint16_t {
  /// Asks to be let in; payload: a cookie, or a nonce when a secret must be proved [rank; number:
  /// count of ranks; detail: HelloFlags].
  kHello = 1,
  /// All ranks have arrived [number: count of ranks; rank: has the root service, or -1].
  kWelcome = 2,
  kContribution = 3,  ///< to the root: the contribution to a collective [number: its own]
  kResult = 4,        ///< from the root: the contributions of all [number: the collective's]
  kGoodbye = 5,       ///< the sender leaves on purpose; nothing follows
  kExpired = 6,       ///< a timeout has passed [number: the collective's; detail: milliseconds]
  /// The job has failed or is to fail, or the receiver is refused; payload: why [detail: status].
  kFail = 7,
  kMissing = 8,  ///< answers kExpired: the missing PE [number: the collective's; rank]
  kNews = 9,     ///< news about a PE, with a reason [rank; number: exit status; detail: PeerEvent]
  kEnded = 10,   ///< a connection has ended [rank: PE at its other end; detail: PeerEvent]
  kPart = 11,  ///< a part of an alltoall [rank: sender; detail: receiver; number: the collective's]
  kMessage = 12,    ///< a message between PEs [rank: sender; detail: receiver; number: its subject]
  kChallenge = 13,  ///< answers a kHello; payload: a nonce, and the sender's proof (greeting.h)
  kProof = 14,      ///< answers a kChallenge; payload: the caller's proof
  kNote = 15        ///< a line for the logs of waiting ranks: why others may be missing
};
/// Is the frame passed on to a PE that its header names?
constexpr bool is_addressed(FrameKind kind) {
  return kind == FrameKind::kPart || kind == FrameKind::kMessage;
}

struct FrameHeader {
  static constexpr std::size_t kBytes = 32;
  static constexpr std::uint32_t kMagic = 0x47534842;  // "GSHB"
  static constexpr std::uint16_t kVersion = 5;
  FrameKind kind = FrameKind::kGoodbye;
  std::uint16_t version = kVersion;
  std::uint32_t epoch = 0;  ///< reserved: always 0
  std::uint64_t bytes = 0;  ///< size of the payload; 32 bits of it are sent
  std::uint64_t number = 0;
  std::int32_t rank = -1;
  std::uint32_t detail = 0;
};

/// Flags in the header of a kHello.
enum HelloFlags : std::uint32_t { kHostsRoot = 1 };  // the root service is in this rank's process

/// Header and payload in the form in which they are sent. It is shared, since one result goes to
/// many.
using Frame = std::shared_ptr<const Bytes>;

constexpr std::uint64_t kMaxPayload = std::uint64_t{1} << 28;
constexpr std::size_t kMaxText = 2048;  // limit for a kFail and a kNote

/// Makes a frame and sets header.bytes.
[[nodiscard]] Frame make_frame(FrameHeader header, ByteView payload = {});
/// Makes a frame with a text as payload, which is truncated at kMaxText for a kFail or a kNote.
[[nodiscard]] Frame make_frame(const FrameHeader& header, std::string_view text);
[[nodiscard]] FrameHeader header_of(const Frame& frame);
[[nodiscard]] inline ByteView payload_of(const Frame& frame) {
  return ByteView(*frame).subspan(FrameHeader::kBytes);
}
/// Returns the payload as text, with '?' for characters that do not belong on a terminal.
[[nodiscard]] std::string text_of(const Frame& frame);

/// Returns nothing when the magic is wrong. Does not check version, kind and length.
[[nodiscard]] std::optional<FrameHeader> decode_header(
    std::span<const std::byte, FrameHeader::kBytes> bytes);
/// Is the magic right, as far as it has arrived?
[[nodiscard]] bool begins_like_a_frame(ByteView bytes);
/// Is the kind known, and can it have a payload of this length?
[[nodiscard]] bool frame_length_valid(FrameKind kind, std::uint64_t bytes);

}  // namespace gshmem::net

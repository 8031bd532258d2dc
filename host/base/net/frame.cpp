#include "host/base/net/frame.h"

#include <endian.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace gshmem::net {
namespace {

/// A header in the form in which it is sent.
struct WireHeader {
  std::uint32_t magic;
  std::uint16_t version, kind;
  std::uint32_t epoch, bytes;
  std::uint64_t number;
  std::uint32_t rank, detail;
};
static_assert(sizeof(WireHeader) == FrameHeader::kBytes);

constexpr std::size_t kCookieBytes = 16, kProofBytes = 32;

}  // namespace

Frame make_frame(FrameHeader header, ByteView payload) {
  const WireHeader wire{htobe32(FrameHeader::kMagic),
                        htobe16(header.version),
                        htobe16(static_cast<std::uint16_t>(header.kind)),
                        htobe32(header.epoch),
                        htobe32(static_cast<std::uint32_t>(payload.size())),
                        htobe64(header.number),
                        htobe32(static_cast<std::uint32_t>(header.rank)),
                        htobe32(header.detail)};
  auto bytes = std::make_shared<Bytes>(sizeof(wire) + payload.size());
  std::memcpy(bytes->data(), &wire, sizeof(wire));
  if (!payload.empty()) std::memcpy(bytes->data() + sizeof(wire), payload.data(), payload.size());
  return bytes;
}

Frame make_frame(const FrameHeader& header, std::string_view text) {
  if (header.kind == FrameKind::kFail || header.kind == FrameKind::kNote)
    text = text.substr(0, kMaxText);
  return make_frame(header, std::as_bytes(std::span(text)));
}

FrameHeader header_of(const Frame& frame) {
  return decode_header(ByteView(*frame).first<FrameHeader::kBytes>()).value_or(FrameHeader{});
}

std::string text_of(const Frame& frame) {
  std::string text;
  for (const std::byte byte : payload_of(frame)) {
    const auto c = static_cast<char>(byte);
    const bool printable = (c >= ' ' && c <= '~') || static_cast<unsigned char>(c) >= 0x80;
    text += printable ? c : '?';
  }
  return text;
}

std::optional<FrameHeader> decode_header(std::span<const std::byte, FrameHeader::kBytes> bytes) {
  WireHeader wire;
  std::memcpy(&wire, bytes.data(), sizeof(wire));
  if (be32toh(wire.magic) != FrameHeader::kMagic) return std::nullopt;
  return FrameHeader{.kind = static_cast<FrameKind>(be16toh(wire.kind)),
                     .version = be16toh(wire.version),
                     .epoch = be32toh(wire.epoch),
                     .bytes = be32toh(wire.bytes),
                     .number = be64toh(wire.number),
                     .rank = static_cast<std::int32_t>(be32toh(wire.rank)),
                     .detail = be32toh(wire.detail)};
}

bool begins_like_a_frame(ByteView bytes) {
  const std::uint32_t magic = htobe32(FrameHeader::kMagic);
  return std::memcmp(bytes.data(), &magic, std::min(bytes.size(), sizeof(magic))) == 0;
}

bool frame_length_valid(FrameKind kind, std::uint64_t bytes) {
  switch (kind) {
    case FrameKind::kHello:
      return bytes == kCookieBytes;
    case FrameKind::kChallenge:
      return bytes == kCookieBytes + kProofBytes;
    case FrameKind::kProof:
      return bytes == kProofBytes;
    case FrameKind::kContribution:
    case FrameKind::kResult:
    case FrameKind::kNews:
    case FrameKind::kPart:
    case FrameKind::kMessage:
      return bytes <= kMaxPayload;
    case FrameKind::kFail:
    case FrameKind::kNote:
      return bytes <= kMaxText;
    case FrameKind::kWelcome:
    case FrameKind::kGoodbye:
    case FrameKind::kExpired:
    case FrameKind::kMissing:
    case FrameKind::kEnded:
      return bytes == 0;
  }
  return false;
}

}  // namespace gshmem::net

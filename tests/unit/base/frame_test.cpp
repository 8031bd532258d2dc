#include "host/base/net/frame.h"

#include <catch2/catch.hpp>

#include <array>
#include <initializer_list>
#include <string>

using namespace gshmem::net;

namespace {

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

constexpr std::array kKinds{FrameKind::kHello,  FrameKind::kWelcome, FrameKind::kContribution,
                            FrameKind::kResult, FrameKind::kGoodbye, FrameKind::kExpired,
                            FrameKind::kFail,   FrameKind::kMissing, FrameKind::kNews,
                            FrameKind::kEnded,  FrameKind::kPart,    FrameKind::kMessage,
                            FrameKind::kNote};

}  // namespace

TEST_CASE("frame_has_golden_bytes") {
  const Frame frame = make_frame({.kind = FrameKind::kHello,
                                  .number = 0x1112131415161718,
                                  .rank = 0x21222324,
                                  .detail = kHostsRoot},
                                 bytes_of({0xA0, 0xA1, 0xA2}));
  CHECK(*frame == bytes_of({0x47, 0x53, 0x48, 0x42,                          // "GSHB"
                            0,    5,                                         // version
                            0,    1,                                         // kHello
                            0,    0,    0,    0,                             // epoch
                            0,    0,    0,    3,                             // payload bytes
                            0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,  // number
                            0x21, 0x22, 0x23, 0x24,                          // rank
                            0,    0,    0,    1,                             // detail
                            0xA0, 0xA1, 0xA2}));
}

TEST_CASE("frame_decodes_to_what_was_encoded") {
  const Frame frame = make_frame(
      {.kind = FrameKind::kNews, .number = ~std::uint64_t{0}, .rank = -7, .detail = 0x80000001},
      std::string_view("why"));
  const FrameHeader header = header_of(frame);
  CHECK(header.kind == FrameKind::kNews);
  CHECK(header.version == FrameHeader::kVersion);
  CHECK(header.bytes == 3);
  CHECK(header.number == ~std::uint64_t{0});
  CHECK(header.rank == -7);
  CHECK(header.detail == 0x80000001);
  CHECK(text_of(frame) == "why");
  Bytes wrong = *frame;
  wrong[0] = std::byte{'H'};
  CHECK_FALSE(decode_header(ByteView(wrong).first<FrameHeader::kBytes>()));
}

TEST_CASE("frame_of_each_kind_has_lengths_of_its_own") {
  for (const FrameKind kind : kKinds) {
    const bool has_data = kind == FrameKind::kContribution || kind == FrameKind::kResult ||
                          kind == FrameKind::kNews || kind == FrameKind::kPart ||
                          kind == FrameKind::kMessage;
    const bool has_text = kind == FrameKind::kFail || kind == FrameKind::kNote;
    CHECK(frame_length_valid(kind, 0) == (kind != FrameKind::kHello));
    CHECK(frame_length_valid(kind, 16) == (kind == FrameKind::kHello || has_data || has_text));
    CHECK(frame_length_valid(kind, 15) == (has_data || has_text));
    CHECK(frame_length_valid(kind, kMaxText) == (has_data || has_text));
    CHECK(frame_length_valid(kind, kMaxText + 1) == has_data);
    CHECK(frame_length_valid(kind, kMaxPayload) == has_data);
    CHECK_FALSE(frame_length_valid(kind, kMaxPayload + 1));
    CHECK_FALSE(frame_length_valid(kind, std::uint64_t{1} << 63));
  }
  // A nonce of 16 bytes and a proof of 32.
  for (const std::uint64_t bytes : {0u, 16u, 32u, 47u, 48u, 49u}) {
    CHECK(frame_length_valid(FrameKind::kChallenge, bytes) == (bytes == 48));
    CHECK(frame_length_valid(FrameKind::kProof, bytes) == (bytes == 32));
  }
  CHECK_FALSE(frame_length_valid(static_cast<FrameKind>(0), 0));
  CHECK_FALSE(frame_length_valid(static_cast<FrameKind>(99), 0));
}

TEST_CASE("frame_with_a_text_loses_control_characters_and_is_cut_to_its_limit") {
  const std::string text =
      "a\x1b[2Jb\n\x7f"
      "c ~\xC3\xA9\xE2\x80\x93";
  CHECK(text_of(make_frame({.kind = FrameKind::kFail}, text)) == "a?[2Jb??c ~\xC3\xA9\xE2\x80\x93");
  const Frame fail = make_frame({.kind = FrameKind::kFail}, std::string(99999, 'x'));
  CHECK(header_of(fail).bytes == kMaxText);
  CHECK(text_of(fail) == std::string(kMaxText, 'x'));
}

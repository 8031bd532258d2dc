#include "bootstrap/uid/wire.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <random>

using namespace gshmem;
using namespace gshmem::bootstrap;

namespace {

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

ByteView payload_of(const Bytes& frame) { return ByteView(frame).subspan(FrameHeader::kBytes); }

Cookie counting_cookie() {
  Cookie cookie;
  for (std::size_t i = 0; i < cookie.size(); ++i) cookie[i] = static_cast<std::byte>(i + 0x10);
  return cookie;
}

/// No shorter payload decodes: `decode` refuses every proper prefix.
template <class Decode>
void refuses_prefixes(const Bytes& frame, Decode decode) {
  const ByteView payload = payload_of(frame);
  for (std::size_t n = 0; n < payload.size(); ++n) CHECK_FALSE(decode(payload.first(n)));
}

}  // namespace

TEST_CASE("wire_hello_has_golden_bytes", "[wire]") {
  const Bytes frame = encode(Hello{counting_cookie(), 0x01020304, 0x05060708, true});
  CHECK(frame == bytes_of({0x47, 0x53, 0x48, 0x42,                        // "GSHB"
                           0,    2,                                       // version
                           0,    1,                                       // Hello
                           0,    0,    0,    0,    0,    0,    0,    28,  // payload bytes
                           0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19,
                           0x1A, 0x1B, 0x1C, 0x1D, 0x1E, 0x1F, 1,    2,    3,    4,  // rank
                           5,    6,    7,    8,                                      // size
                           0,    0,    0,    1}));                                   // flags
  const auto hello = decode_hello(payload_of(frame));
  REQUIRE(hello);
  CHECK(hello->cookie == counting_cookie());
  CHECK(hello->rank == 0x01020304);
  CHECK(hello->size == 0x05060708);
  CHECK(hello->hosts_root);
  refuses_prefixes(frame, decode_hello);
}

TEST_CASE("wire_header_is_read_back", "[wire]") {
  const Bytes frame = encode(Gather{7, Operation::kAllgather, bytes_of({1, 2, 3})});
  const auto header = decode_header(ByteView(frame).first<16>());
  REQUIRE(header);
  CHECK(header->version == 2);
  CHECK(header->type == FrameType::kGather);
  CHECK(header->length == frame.size() - FrameHeader::kBytes);
  Bytes wrong = frame;
  wrong[0] = std::byte{'H'};
  CHECK_FALSE(decode_header(ByteView(wrong).first<16>()));
}

TEST_CASE("wire_frames_are_read_back", "[wire]") {
  const Bytes data = bytes_of({9, 8, 7});
  const Bytes gather = encode(Gather{0x1122334455667788, Operation::kBarrier, data});
  const auto g = decode_gather(payload_of(gather));
  REQUIRE(g);
  CHECK(g->number == 0x1122334455667788);
  CHECK(g->operation == Operation::kBarrier);
  CHECK(Bytes(g->data.begin(), g->data.end()) == data);

  Bytes result = encode_result(42, 3);
  CHECK(result.size() == kResultDataOffset + 3);
  std::copy(data.begin(), data.end(), result.begin() + kResultDataOffset);
  const auto r = decode_result(payload_of(result));
  REQUIRE(r);
  CHECK(r->number == 42);
  CHECK(Bytes(r->data.begin(), r->data.end()) == data);

  const auto w = decode_welcome(payload_of(encode(Welcome{5, -1})));
  REQUIRE(w);
  CHECK(w->size == 5);
  CHECK(w->root_rank == -1);
  refuses_prefixes(encode(Welcome{5, -1}), decode_welcome);

  const auto e = decode_expired(payload_of(encode(Expired{3, 1500})));
  REQUIRE(e);
  CHECK(e->number == 3);
  CHECK(e->timeout_ms == 1500);
  refuses_prefixes(encode(Expired{3, 1500}), decode_expired);

  const auto a = decode_abort(payload_of(encode(Abort{-7, "why"})));
  REQUIRE(a);
  CHECK(a->code == -7);
  CHECK(a->reason == "why");
  const auto f = decode_fail(payload_of(encode(Fail{12, "who"})));
  REQUIRE(f);
  CHECK(f->status == 12);
  CHECK(f->text == "who");
  CHECK(payload_of(encode_leave()).empty());
}

TEST_CASE("wire_encoders_keep_to_the_lengths_that_decoders_accept", "[wire]") {
  const Bytes data(1000);
  for (const Bytes& frame :
       {encode(Hello{}), encode(Welcome{}), encode(Gather{1, Operation::kAllgather, data}),
        encode_result(1, 1000), encode_leave(), encode(Abort{1, std::string(99999, 'x')}),
        encode(Fail{1, std::string(99999, 'x')}), encode(Expired{})}) {
    const auto header = decode_header(ByteView(frame).first<16>());
    REQUIRE(header);
    CHECK(header->length == frame.size() - FrameHeader::kBytes);
    CHECK(frame_length_valid(header->type, header->length));
  }
  CHECK_FALSE(frame_length_valid(FrameType::kHello, 27));
  CHECK_FALSE(frame_length_valid(FrameType::kHello, std::uint64_t{1} << 63));
  CHECK_FALSE(frame_length_valid(FrameType::kGather, 11));
  CHECK_FALSE(frame_length_valid(FrameType::kGather, kMaxGatherBytes + 13));
  CHECK_FALSE(frame_length_valid(FrameType::kAbort, kMaxTextBytes + 5));
  CHECK_FALSE(frame_length_valid(static_cast<FrameType>(0), 0));
  CHECK_FALSE(frame_length_valid(static_cast<FrameType>(99), 0));
}

TEST_CASE("wire_texts_lose_control_characters", "[wire]") {
  const auto fail = decode_fail(payload_of(encode(Fail{1,
                                                       "a\x1b[2Jb\n\x7f"
                                                       "c\xC3\xA9"})));
  REQUIRE(fail);
  CHECK(fail->text == "a?[2Jb??c\xC3\xA9");
}

TEST_CASE("wire_texts_that_are_too_long_are_refused", "[wire]") {
  const Bytes fits(4 + kMaxTextBytes), longer(4 + kMaxTextBytes + 1);
  CHECK(decode_abort(fits));
  CHECK_FALSE(decode_abort(longer));
  CHECK(decode_fail(fits));
  CHECK_FALSE(decode_fail(longer));
}

TEST_CASE("uniqueid_is_read_back", "[wire]") {
  UniqueId id;
  id.cookie = counting_cookie();
  id.root.port = 0xABCD;
  id.root.ip = {10, 1, 2, 3};
  gshmemx_uniqueid packed;
  std::memset(&packed, 0x55, sizeof packed);
  encode_uniqueid(id, &packed);
  CHECK(packed.version == kUniqueIdVersion);
  CHECK(std::memcmp(packed.internal, "GUID\x04\x0A\x01\x02\x03", 9) == 0);
  CHECK(decode_uniqueid(packed) == id);

  id.root.family = Endpoint::Family::kIpv6;
  id.root.ip = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  encode_uniqueid(id, &packed);
  CHECK(decode_uniqueid(packed) == id);
}

TEST_CASE("uniqueid_that_is_none_is_refused", "[wire]") {
  gshmemx_uniqueid good;
  UniqueId id;
  id.root.port = 1;
  encode_uniqueid(id, &good);
  REQUIRE(decode_uniqueid(good));

  CHECK_FALSE(decode_uniqueid(gshmemx_uniqueid{}));
  gshmemx_uniqueid bad = good;
  bad.version = 2;
  CHECK_FALSE(decode_uniqueid(bad));
  for (const std::size_t at : {0u, 4u, 60u, 123u}) {  // magic, family, padding
    bad = good;
    bad.internal[at] = static_cast<char>(bad.internal[at] ^ 0x70);
    CHECK_FALSE(decode_uniqueid(bad));
  }
  id.root.port = 0;
  encode_uniqueid(id, &bad);
  CHECK_FALSE(decode_uniqueid(bad));
}

#include "transport/hosts/frame_stream.h"

#include "host/base/fd.h"

#include <catch2/catch.hpp>

#include <sys/socket.h>

#include <cerrno>

using namespace gshmem;
using namespace gshmem::hosts;

namespace {

struct Pair {
  Pair() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    a = Fd(ends[0]);
    b = Fd(ends[1]);
  }
  Fd a, b;
};

std::vector<char> pattern(std::size_t bytes) {
  std::vector<char> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 7);
  return data;
}

}  // namespace

TEST_CASE("frames_arrive_as_they_were_sent") {
  Pair pair;
  FrameStream to(pair.a.get()), from(pair.b.get());
  const std::vector<std::size_t> sizes{0, 1, 256, 16384, 3, 5'000'000};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    to.queue(make_frame({.kind = FrameKind::kResult, .sequence = i, .pe = 5}, pattern(sizes[i])));
  std::size_t got = 0;
  while (got < sizes.size()) {  // neither end ever waits, whatever the socket takes
    to.send_some();
    const Frame frame = from.receive();
    if (!frame) continue;
    CHECK(header_of(frame).sequence == got);
    CHECK(header_of(frame).pe == 5);
    const auto payload = payload_of(frame);
    CHECK(std::vector<char>(payload.begin(), payload.end()) == pattern(sizes[got]));
    ++got;
  }
  CHECK(to.flushed());
  CHECK(from.receive() == nullptr);
  CHECK_FALSE(from.ended());
}

TEST_CASE("frame_in_pieces_is_given_out_when_it_is_whole") {
  Pair pair;
  FrameStream from(pair.b.get());
  const Frame frame = make_frame({.kind = FrameKind::kNews, .pe = 3}, pattern(10));
  for (std::size_t i = 0; i < frame->size(); ++i) {
    CHECK(from.receive() == nullptr);
    REQUIRE(::send(pair.a.get(), frame->data() + i, 1, 0) == 1);
  }
  const Frame got = from.receive();
  REQUIRE(got != nullptr);
  CHECK(*got == *frame);
}

TEST_CASE("what_was_sent_before_the_end_is_still_read") {
  Pair pair;
  FrameStream to(pair.a.get()), from(pair.b.get());
  to.queue(make_frame({.kind = FrameKind::kGoodbye}));
  to.send_some();
  pair.a = Fd();
  CHECK(from.receive() != nullptr);
  CHECK(from.receive() == nullptr);
  CHECK(from.ended());
  CHECK(from.error() == 0);
}

TEST_CASE("bytes_of_something_else_end_the_stream") {
  for (const bool huge : {false, true}) {
    Pair pair;
    FrameStream from(pair.b.get());
    FrameHeader header;
    if (huge) {
      header.bytes = std::uint64_t{1} << 60;
    } else {
      header.magic = 0x47455420;
    }
    REQUIRE(::send(pair.a.get(), &header, sizeof(header), 0) == sizeof(header));
    CHECK(from.receive() == nullptr);
    CHECK(from.ended());
    CHECK(from.error() == EPROTO);
  }
}

TEST_CASE("sending_to_who_has_gone_is_no_error_of_its_own") {
  Pair pair;
  FrameStream to(pair.a.get());
  pair.b = Fd();
  to.queue(make_frame({.kind = FrameKind::kNews}, pattern(100)));
  to.send_some();
  CHECK(to.flushed());
  CHECK(to.receive() == nullptr);
  CHECK(to.ended());
}

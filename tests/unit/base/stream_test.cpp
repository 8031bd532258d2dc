#include "host/base/net/stream.h"

#include <catch2/catch.hpp>

#include <malloc.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

using namespace gshmem;
using namespace gshmem::net;

namespace {

constexpr auto kAll = {FrameKind::kResult, FrameKind::kNews, FrameKind::kGoodbye};

struct Pair {
  Pair() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    a = Fd(ends[0]);
    b = Fd(ends[1]);
  }
  Fd a, b;
};

Bytes pattern(std::size_t bytes) {
  Bytes data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7);
  return data;
}

ByteView bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

void send_all(const Fd& to, ByteView bytes) {
  REQUIRE(::send(to.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
}

}  // namespace

TEST_CASE("frames_arrive_as_they_were_sent") {
  Pair pair;
  Stream to(std::move(pair.a), kAll), from(std::move(pair.b), kAll);
  const std::vector<std::size_t> sizes{0, 1, 256, 16384, 3, 5'000'000};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    to.queue(make_frame({.kind = FrameKind::kResult, .number = i, .rank = 5}, pattern(sizes[i])));
  std::size_t got = 0;
  while (got < sizes.size()) {  // neither end ever waits, whatever the socket takes
    to.send_some();
    const Frame frame = from.receive();
    if (!frame) continue;
    CHECK(header_of(frame).number == got);
    CHECK(header_of(frame).rank == 5);
    const ByteView payload = payload_of(frame);
    CHECK(Bytes(payload.begin(), payload.end()) == pattern(sizes[got]));
    ++got;
  }
  CHECK(to.flushed());
  CHECK(from.receive() == nullptr);
  CHECK(from.state() == Stream::State::kOpen);
}

TEST_CASE("frame_in_pieces_is_given_out_when_it_is_whole") {
  Pair pair;
  Stream from(std::move(pair.b), kAll);
  const Frame frame = make_frame({.kind = FrameKind::kNews, .rank = 3}, pattern(10));
  for (std::size_t i = 0; i < frame->size(); ++i) {
    CHECK(from.receive() == nullptr);
    send_all(pair.a, ByteView(*frame).subspan(i, 1));
  }
  const Frame got = from.receive();
  REQUIRE(got != nullptr);
  CHECK(*got == *frame);
}

TEST_CASE("what_was_sent_before_the_end_is_still_read") {
  Pair pair;
  Stream from(std::move(pair.b), kAll);
  {
    Stream to(std::move(pair.a), kAll);
    to.queue(make_frame({.kind = FrameKind::kGoodbye}));
    to.send_some();
  }
  CHECK(from.receive() != nullptr);
  errno = EIO;  // of an earlier call: an end is no error
  CHECK(from.receive() == nullptr);
  CHECK(from.state() == Stream::State::kClosed);
  CHECK(from.error() == 0);
  CHECK(from.reason() == "connection closed");
}

TEST_CASE("what_is_no_frame_that_the_owner_takes_ends_the_stream") {
  const Frame good = make_frame({.kind = FrameKind::kNews});
  for (const std::size_t at : {0u, 6u, 8u}) {  // magic, kind, length
    Pair pair;
    Stream from(std::move(pair.b), kAll);
    Bytes bad = *good;
    bad[at] = std::byte{0x7F};
    send_all(pair.a, bad);
    CHECK(from.receive() == nullptr);
    CHECK(from.state() == Stream::State::kStranger);
    CHECK(from.reason() == "it sent what is no frame");
    CHECK(from.poll_events() == POLLIN);
    from.queue(good);
    CHECK_FALSE(from.flushed());  // it can be told
    CHECK(from.poll_events() == (POLLIN | POLLOUT));
  }
  {
    Pair pair;
    Stream from(std::move(pair.b), kAll);
    send_all(pair.a, bytes_of("SSH-"));  // less than a header
    CHECK(from.receive() == nullptr);
    CHECK(from.state() == Stream::State::kStranger);
  }
  for (const FrameKind kind : {FrameKind::kNews, FrameKind::kGoodbye}) {
    Pair pair;
    Stream from(std::move(pair.b), {FrameKind::kGoodbye});
    send_all(pair.a, *make_frame({.kind = kind}));
    CHECK((from.receive() != nullptr) == (kind == FrameKind::kGoodbye));
  }
}

TEST_CASE("a_header_alone_costs_no_memory_for_what_it_promises") {
  const auto bytes_in_use = [] { return ::mallinfo2().uordblks + ::mallinfo2().hblkhd; };
  Pair pair;
  Stream from(std::move(pair.b), kAll);
  Bytes header = *make_frame({.kind = FrameKind::kNews});
  header[12] = std::byte{0x08};  // 128 MiB
  send_all(pair.a, header);
  const std::size_t before = bytes_in_use();
  CHECK(from.receive() == nullptr);
  CHECK(from.state() == Stream::State::kOpen);
  CHECK(from.poll_events() == POLLIN);
  CHECK(bytes_in_use() < before + (1 << 20));
}

TEST_CASE("another_version_is_told_from_a_stranger_and_can_be_answered") {
  Pair pair;
  Stream from(std::move(pair.b), kAll), back(Fd(::dup(pair.a.get())), {FrameKind::kFail});
  Bytes other = *make_frame({.kind = FrameKind::kNews});
  other[5] = std::byte{9};
  send_all(pair.a, other);
  CHECK(from.receive() == nullptr);
  CHECK(from.state() == Stream::State::kOtherVersion);
  CHECK(from.other_version() == 9);
  from.queue(make_frame({.kind = FrameKind::kFail}, std::string_view("too new")));
  from.send_some();
  const Frame answer = back.receive();
  REQUIRE(answer != nullptr);
  CHECK(text_of(answer) == "too new");
  // Whatever else its frames are; but a failure is read from all.
  for (const FrameKind kind : {FrameKind::kHello, FrameKind::kLetter, FrameKind{99}}) {
    Pair strange;
    Stream reads(std::move(strange.b), kAll);
    Bytes frame = *make_frame({.kind = kind});
    frame[5] = std::byte{9};
    send_all(strange.a, frame);
    CHECK(reads.receive() == nullptr);
    CHECK(reads.state() == Stream::State::kOtherVersion);
  }
  Pair newer;
  Stream reads(std::move(newer.b), {FrameKind::kFail});
  Bytes failure = *make_frame({.kind = FrameKind::kFail}, std::string_view("too old"));
  failure[5] = std::byte{9};
  send_all(newer.a, failure);
  const Frame got = reads.receive();
  REQUIRE(got != nullptr);
  CHECK(text_of(got) == "too old");
}

TEST_CASE("sending_to_who_has_gone_is_no_error_of_its_own") {
  Pair pair;
  Stream to(std::move(pair.a), kAll);
  pair.b = Fd();
  to.queue(make_frame({.kind = FrameKind::kNews}, pattern(100)));
  to.send_some();
  CHECK(to.flushed());
  CHECK(to.receive() == nullptr);
  CHECK(to.state() == Stream::State::kClosed);
  CHECK(to.error() == EPIPE);
  CHECK(to.reason() == std::strerror(EPIPE));
  to.queue(make_frame({.kind = FrameKind::kNews}));
  CHECK(to.flushed());
}

TEST_CASE("what_is_queued_can_be_dropped_and_the_rest_be_read_after_the_last_word") {
  Pair pair;
  Stream to(std::move(pair.a), kAll), from(std::move(pair.b), kAll);
  to.queue(make_frame({.kind = FrameKind::kNews}));
  to.drop_outgoing();
  CHECK(to.flushed());
  to.queue(make_frame({.kind = FrameKind::kGoodbye}));
  to.send_some();
  to.finish_sending();
  const Frame got = from.receive();
  REQUIRE(got != nullptr);
  CHECK(header_of(got).kind == FrameKind::kGoodbye);
  CHECK(from.receive() == nullptr);
  CHECK(from.state() == Stream::State::kClosed);
}

// What the tests of the uid bootstrap share: configuration on loopback, a channel that carries ids
// between ranks whether they are threads or processes, and a client that breaks the rules.
#pragma once

#include "bootstrap/uid/id.h"
#include "host/base/net/interfaces.h"
#include "host/base/net/stream.h"
#include "tests/bootstrap/conformance.h"
#include "tests/patience.h"

#include <catch2/catch.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace gshmem::test {

inline Config uid_config(double timeout_seconds = 60 * kPatience,
                         AddressFamily family = AddressFamily::kIpv4) {
  Config config;
  config.uid_interface = "=lo";
  config.uid_family = family;
  config.bootstrap_timeout = timeout_seconds;
  return config;
}

/// A port of 127.0.0.1 that nobody listens on right now.
inline std::string free_address(const std::string& host = "127.0.0.1") {
  const auto any =
      net::choose_address(net::list_interfaces(), "=lo",
                          host == "127.0.0.1" ? AddressFamily::kIpv4 : AddressFamily::kIpv6);
  return host + ":" + std::to_string(net::listen_on(any).endpoint.port);
}

inline Config address_config(const std::string& address, int rank, int size,
                             double timeout_seconds) {
  Config config = uid_config(timeout_seconds, AddressFamily::kAny);
  config.bootstrap = BootstrapKind::kUid;
  config.uid_address = address;
  config.uid_rank = rank;
  config.uid_size = size;
  return config;
}

/// Carries ids from the rank that makes one to the others. Made before threads or processes start.
class IdChannel {
 public:
  IdChannel() { check_errno(pipe(ends_), "pipe"); }
  IdChannel(const IdChannel&) = delete;
  IdChannel& operator=(const IdChannel&) = delete;
  ~IdChannel() {
    close(ends_[0]);
    close(ends_[1]);
  }
  /// Rank 0 makes an id and sends it to the others; all return it.
  [[nodiscard]] gshmemx_uniqueid share(int rank, int size, const Config& config) {
    gshmemx_uniqueid id{};
    if (rank == 0) {
      bootstrap::make_uniqueid(&id, config);
      // An id is less than PIPE_BUF bytes, so each write and each read moves a whole one.
      for (int r = 1; r < size; ++r) check_errno(write(ends_[1], &id, sizeof id), "write");
    } else {
      expect(read(ends_[0], &id, sizeof id) == sizeof id, "a whole id arrives");
    }
    return id;
  }
  [[nodiscard]] std::unique_ptr<bootstrap::Bootstrap> join(int rank, int size,
                                                           const Config& config) {
    return bootstrap::create_uid(share(rank, size, config), rank, size, config);
  }

  /// As a counter instead: signal() adds one, await() takes `count` away.
  void signal() { check_errno(write(ends_[1], "", 1), "write"); }
  void await(int count) {
    char byte = 0;
    while (count-- > 0) expect(read(ends_[0], &byte, 1) == 1, "a signal arrives");
  }

 private:
  int ends_[2];
};

[[nodiscard]] inline net::Frame hello_frame(const net::Cookie& cookie, int rank, unsigned size,
                                            bool hosts_root = false) {
  return net::make_frame({.kind = net::FrameKind::kHello,
                          .number = size,
                          .rank = rank,
                          .detail = hosts_root ? net::kHostsRoot : 0u},
                         cookie);
}

/// A TCP client of the root service of `id` that sends what it likes.
class RawClient {
 public:
  explicit RawClient(const gshmemx_uniqueid& id)
      : id_(bootstrap::decode_uniqueid(id).value()),
        stream_(net::connect_to(id_.root, deadline()).fd,
                {net::FrameKind::kWelcome, net::FrameKind::kResult, net::FrameKind::kFail}) {
    expect(bool{stream_.fd()}, "the root service takes connections");
  }
  [[nodiscard]] net::Frame hello(int rank, unsigned size) const {
    return hello_frame(id_.cookie, rank, size);
  }
  /// `step` bytes at a time, each its own packet.
  void send(net::ByteView bytes, std::size_t step = 1 << 20) {
    while (!bytes.empty()) {
      const std::size_t n = std::min(step, bytes.size());
      (void)net::wait_for(stream_.fd(), POLLOUT, deadline());
      if (::send(stream_.fd().get(), bytes.data(), n, MSG_NOSIGNAL) < 0) return;
      bytes = bytes.subspan(n);
    }
  }
  void send(const net::Frame& frame, std::size_t step = 1 << 20) { send(*frame, step); }
  /// Says goodbye, as a rank does.
  void leave() {
    send(net::make_frame({.kind = net::FrameKind::kGoodbye}));
    stream_.finish_sending();
  }
  /// The next frame, or null when the root service hangs up.
  [[nodiscard]] net::Frame receive() {
    for (;;) {
      if (net::Frame frame = stream_.receive()) return frame;
      if (stream_.state() != net::Stream::State::kOpen) return nullptr;
      expect(net::wait_for(stream_.fd(), POLLIN, deadline()), "an answer in time");
    }
  }
  /// The next frame is one of this kind.
  void expect_kind(net::FrameKind kind) {
    const net::Frame frame = receive();
    expect(frame && net::header_of(frame).kind == kind, "the kind of the answer");
  }
  [[nodiscard]] std::string receive_failure() {
    const net::Frame frame = receive();
    expect(frame && net::header_of(frame).kind == net::FrameKind::kFail, "the answer is a failure");
    return net::text_of(frame);
  }

 private:
  static Deadline deadline() { return Deadline(30 * kPatience); }
  bootstrap::UniqueId id_;
  net::Stream stream_;
};

}  // namespace gshmem::test

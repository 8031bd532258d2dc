// Shared by the tests of the uid bootstrap: configuration on loopback, a channel that carries ids
// between ranks in threads or processes, and a client that breaks the rules.
#pragma once

#include "bootstrap/uid/id.h"
#include "host/base/net/greeting.h"
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

/// Returns an unused port of 127.0.0.1.
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

/// Carries ids from the rank that creates one to the others. Created before threads or processes
/// start.
class IdChannel {
 public:
  IdChannel() { check_errno(pipe(ends_), "pipe"); }
  IdChannel(const IdChannel&) = delete;
  IdChannel& operator=(const IdChannel&) = delete;
  ~IdChannel() {
    close(ends_[0]);
    close(ends_[1]);
  }
  /// Rank 0 creates an id and sends it to the others; all ranks return it.
  [[nodiscard]] gshmemx_uniqueid share(int rank, int size, const Config& config) {
    gshmemx_uniqueid id{};
    if (rank == 0) {
      bootstrap::make_uniqueid(&id, config);
      // An id has less than PIPE_BUF bytes, so each write and each read moves a whole one.
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

  /// The channel as a counter: signal() adds one, await() subtracts `count`.
  void signal() { check_errno(write(ends_[1], "", 1), "write"); }
  void await(int count) {
    char byte = 0;
    while (count-- > 0) expect(read(ends_[0], &byte, 1) == 1, "a signal arrives");
  }

 private:
  int ends_[2];
};

[[nodiscard]] inline net::Frame hello_frame(int rank, unsigned size, bool hosts_root = false) {
  return net::make_frame({.kind = net::FrameKind::kHello,
                          .number = size,
                          .rank = rank,
                          .detail = hosts_root ? net::kHostsRoot : 0u},
                         net::random_cookie());
}
[[nodiscard]] inline net::Secret secret_of(const bootstrap::UniqueId& id) {
  return {.text = {reinterpret_cast<const char*>(id.cookie.data()), id.cookie.size()},
          .shown = !id.proved};
}

/// A TCP client of a root service that may send anything.
class RawClient {
 public:
  explicit RawClient(const gshmemx_uniqueid& id)
      : RawClient(bootstrap::decode_uniqueid(id).value().roots.front().endpoint,
                  secret_of(bootstrap::decode_uniqueid(id).value())) {}
  RawClient(const net::Endpoint& root, net::Secret secret)
      : secret_(std::move(secret)),
        stream_(net::connect_to(root, deadline()).fd,
                {net::FrameKind::kChallenge, net::FrameKind::kWelcome, net::FrameKind::kResult,
                 net::FrameKind::kFail, net::FrameKind::kNote}) {
    expect(bool{stream_.fd()}, "the root service takes connections");
  }
  /// Makes the greeting of a rank, without its proof.
  [[nodiscard]] static net::Frame hello(int rank, unsigned size) { return hello_frame(rank, size); }
  void begin(int rank, unsigned size, bool hosts_root = false) {
    hello_ = hello_frame(rank, size, hosts_root);
    send(hello_, step);
  }
  void finish() {
    const net::Frame challenge = receive();
    expect(challenge && net::header_of(challenge).kind == net::FrameKind::kChallenge,
           "a challenge");
    const net::Frame proof = net::answer_to(challenge, hello_, secret_);
    expect(proof != nullptr, "the root service proves itself");
    send(proof, step);
  }
  void join(int rank, unsigned size, bool hosts_root = false) {
    begin(rank, size, hosts_root);
    finish();
  }
  [[nodiscard]] bool answers_within(double seconds) const {
    return net::wait_for(stream_.fd(), POLLIN, Deadline(seconds));
  }
  std::size_t step = 1 << 20;  ///< bytes of a packet
  /// Sends `step` bytes at a time, each as a packet.
  void send(net::ByteView bytes, std::size_t step = 1 << 20) {
    while (!bytes.empty()) {
      const std::size_t n = std::min(step, bytes.size());
      (void)net::wait_for(stream_.fd(), POLLOUT, deadline());
      if (::send(stream_.fd().get(), bytes.data(), n, MSG_NOSIGNAL) < 0) return;
      bytes = bytes.subspan(n);
    }
  }
  void send(const net::Frame& frame, std::size_t step = 1 << 20) { send(*frame, step); }
  /// Leaves as a rank does.
  void leave() {
    send(net::make_frame({.kind = net::FrameKind::kGoodbye}));
    stream_.finish_sending();
  }
  /// Returns the next frame that is no note, or null if the root service hangs up.
  [[nodiscard]] net::Frame receive() {
    for (;;) {
      net::Frame frame = stream_.receive();
      if (frame && net::header_of(frame).kind != net::FrameKind::kNote) return frame;
      if (frame) continue;
      if (stream_.state() != net::Stream::State::kOpen) return nullptr;
      expect(net::wait_for(stream_.fd(), POLLIN, deadline()), "an answer in time");
    }
  }
  /// Checks the kind of the next frame.
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
  net::Secret secret_;
  net::Frame hello_;
  net::Stream stream_;
};

}  // namespace gshmem::test

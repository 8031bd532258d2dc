// Tests a host's leader that waits for the call of another leader while strangers call.
#include "host/control/host_links.h"

#include "host/base/net/candidates.h"
#include "host/base/net/frame.h"
#include "tests/patience.h"
#include "tests/sanitizers/sanitizers.h"

#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

using namespace gshmem;

namespace {

/// Rank 0 of two; it records the contribution to rank 1.
class Spy final : public Collectives {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 2; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    std::memset(recv, 0, 2 * bytes);
    std::memcpy(recv, send, bytes);
    Contact contact;  // all data that leaders exchange
    REQUIRE(bytes == sizeof(contact));
    std::memcpy(&contact, send, sizeof(contact));
    told.set_value(contact);
  }

  struct Contact {
    std::array<net::Endpoint, net::kMaxCandidates> endpoints{};
    std::uint64_t count = 0;
    net::Cookie cookie{};
  };
  std::promise<Contact> told;
};

/// Rank 1 of two; its rank 0 announces these ports of the loopback interface.
class FromThem final : public Collectives {
 public:
  explicit FromThem(const std::vector<std::uint16_t>& ports) {
    for (const std::uint16_t port : ports) {
      net::Endpoint& endpoint = contact_.endpoints[contact_.count++];
      endpoint.ip = {127, 0, 0, 1};
      endpoint.port = port;
    }
  }
  int rank() const noexcept override { return 1; }
  int size() const noexcept override { return 2; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    REQUIRE(bytes == sizeof(contact_));
    std::memcpy(recv, &contact_, bytes);
    std::memcpy(static_cast<char*>(recv) + bytes, send, bytes);
  }

 private:
  Spy::Contact contact_{};
};

/// Runs rank 0, which waits while `caller` acts on its address.
template <class Caller>
std::vector<control::Link> links_with(const Config& config, double seconds, const Caller& caller,
                                      const std::vector<std::string>& hosts = {"here", "there"}) {
  Spy spy;
  std::thread thread([&, told = spy.told.get_future()]() mutable { caller(told.get()); });
  struct Join {
    std::thread& thread;
    ~Join() { thread.join(); }
  } join{thread};
  const control::HostGroup group = control::group_hosts(hosts, 0);
  net::Endpoint loopback;
  loopback.ip = {127, 0, 0, 1};
  return control::connect_hosts(spy, group, {loopback}, config, seconds);
}

/// Returns the error of a leader whose only caller is `stranger`, which gets its address.
template <class Stranger>
Error error_with(double seconds, const Stranger& stranger) {
  try {
    (void)links_with(Config{}, seconds,
                     [&](const Spy::Contact& contact) { stranger(contact.endpoints[0]); });
  } catch (const Error& thrown) {
    return thrown;
  }
  return Error(GSHMEMX_SUCCESS, "");
}

}  // namespace

TEST_CASE("endless_callers_do_not_delay_the_timeout") {
  std::atomic<bool> over{false};
  const Error error = error_with(0.5, [&](const net::Endpoint& endpoint) {
    // Ends when the port is closed.
    const Deadline limit(30 * test::kPatience);
    while (!limit.passed()) {
      const net::Attempt attempt = net::connect_to(endpoint, limit);
      if (!attempt.fd) break;
      (void)!::send(attempt.fd.get(), "?", 1, MSG_NOSIGNAL);
    }
    over = !limit.passed();
  });
  CHECK(error.code() == GSHMEMX_ERROR_TIMEOUT);
  CHECK(std::string(error.what()).find("PE 1 on host there did not connect") == 0);
  CHECK(over);
}

TEST_CASE("a_leader_that_does_not_listen_or_accept_is_an_error_that_names_its_pe") {
  const auto error_of = [](const std::vector<std::uint16_t>& ports) {
    FromThem spy(ports);
    try {
      (void)control::connect_hosts(spy, control::group_hosts({"here", "there"}, 1), {}, Config{},
                                   20 * test::kPatience);
    } catch (const Error& error) {
      CHECK(error.code() == GSHMEMX_ERROR_PEER_FAILED);
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(error_of({}) == "PE 0 does not listen");
  net::Endpoint loopback;
  loopback.ip = {127, 0, 0, 1};
  const std::uint16_t free = net::listen_on(loopback).endpoint.port;  // closed again
  CHECK(error_of({free}) == "PE 1 cannot connect to PE 0 on host here at 127.0.0.1:" +
                                std::to_string(free) + ": " + std::strerror(ECONNREFUSED) +
                                "; choose the network between the hosts with GSHMEM_UID_INTERFACE");
}

TEST_CASE("a_caller_without_the_cookie_or_unexpected_is_refused_with_the_reason") {
  const double seconds = 20 * test::kPatience;
  Fd caller;
  const std::vector<control::Link> links =
      links_with(Config{}, seconds, [&](const Spy::Contact& contact) {
        const auto say_hello = [&](int rank, const net::Cookie& cookie) {
          Fd fd = net::connect_to(contact.endpoints[0], Deadline(seconds)).fd;
          const net::Frame hello =
              net::make_frame({.kind = net::FrameKind::kHello, .rank = rank}, cookie);
          (void)!::send(fd.get(), hello->data(), hello->size(), MSG_NOSIGNAL);
          return fd;
        };
        net::Cookie other = contact.cookie;
        other[0] = ~other[0];
        for (const Fd& stranger : {say_hello(1, other), say_hello(2, contact.cookie)}) {
          char answer[100] = "";
          CHECK(net::wait_for(stranger, POLLIN, Deadline(seconds)));
          (void)!::recv(stranger.get(), answer, sizeof(answer), 0);
          CHECK(std::string(answer + net::FrameHeader::kBytes) ==
                "refused: not a host of this job");
        }
        caller = say_hello(1, contact.cookie);
      });
  REQUIRE(links.size() == 1);
  CHECK(links[0].pe == 1);
}

TEST_CASE("leaders_have_links_to_other_hosts_and_to_no_pe_of_their_own") {
  const double seconds = 20 * test::kPatience;
  Fd caller;
  const std::vector<control::Link> called =
      links_with(Config{}, seconds,
                 [&](const Spy::Contact& contact) {
                   caller = net::connect_to(contact.endpoints[0], Deadline(seconds)).fd;
                   const net::Frame hello =
                       net::make_frame({.kind = net::FrameKind::kHello, .rank = 2}, contact.cookie);
                   (void)!::send(caller.get(), hello->data(), hello->size(), MSG_NOSIGNAL);
                 },
                 {"here", "here", "there"});
  REQUIRE(called.size() == 1);
  CHECK(called[0].pe == 2);
  CHECK(called[0].other_host);
  net::Endpoint loopback;
  loopback.ip = {127, 0, 0, 1};
  const net::Listener listener = net::listen_on(loopback);
  // Only the second of two addresses answers.
  const std::uint16_t closed = net::listen_on(loopback).endpoint.port;
  FromThem spy({closed, listener.endpoint.port});
  const std::vector<control::Link> calls = control::connect_hosts(
      spy, control::group_hosts({"here", "there"}, 1), {}, Config{}, seconds);
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].pe == 0);
  CHECK(calls[0].other_host);
}

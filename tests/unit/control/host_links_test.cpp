// A host's leader that waits for another one's call while others call.
#include "host/control/host_links.h"

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

/// Rank 0 of two, and what rank 1 would be told.
class Spy final : public Collectives {
 public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 2; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    std::memset(recv, 0, 2 * bytes);
    std::memcpy(recv, send, bytes);
    Contact contact;  // all that leaders tell each other
    REQUIRE(bytes == sizeof(contact));
    std::memcpy(&contact, send, sizeof(contact));
    told.set_value(contact);
  }

  struct Contact {
    net::Endpoint endpoint;
    net::Cookie cookie;
  };
  std::promise<Contact> told;
};

/// Rank 1 of two, whose rank 0 listens at a port of the loopback interface, or at none.
class FromThem final : public Collectives {
 public:
  explicit FromThem(std::uint16_t port) {
    contact_.endpoint.ip = {127, 0, 0, 1};
    contact_.endpoint.port = port;
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

/// Rank 0, which waits for what `caller` does to its address.
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
  return control::connect_hosts(spy, group, loopback, config, seconds);
}

/// The error of a leader whose only caller is `stranger`, which gets its address.
template <class Stranger>
Error error_with(double seconds, const Stranger& stranger) {
  try {
    (void)links_with(Config{}, seconds,
                     [&](const Spy::Contact& contact) { stranger(contact.endpoint); });
  } catch (const Error& thrown) {
    return thrown;
  }
  return Error(GSHMEMX_SUCCESS, "");
}

double cpu_seconds() {
  rusage usage{};
  (void)getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

TEST_CASE("callers_without_end_do_not_hold_up_the_timeout") {
  std::atomic<bool> over{false};
  const Error error = error_with(0.5, [&](const net::Endpoint& endpoint) {
    // Ends when nobody listens any more.
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

TEST_CASE("leader_without_descriptors_says_so") {
  if (kUnderAsan) {
    std::puts("skipped: UBSan, which is built in with ASan, needs descriptors");
    return;
  }
  const pid_t child = fork();
  if (child == 0) {
    const double before = cpu_seconds();
    const Error error = error_with(20 * test::kPatience, [](const net::Endpoint& endpoint) {
      // Before the call, which the leader may take at once.
      const Fd caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      rlimit limit{};
      (void)getrlimit(RLIMIT_NOFILE, &limit);
      limit.rlim_cur = 3;  // all taken; of so many poll(2) takes no more, either
      (void)setrlimit(RLIMIT_NOFILE, &limit);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(endpoint.port);
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      (void)!::connect(caller.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to));
      (void)!::send(caller.get(), "?", 1, MSG_NOSIGNAL);
      // Until it hangs up, or has given up.
      char byte;
      (void)!::recv(caller.get(), &byte, 1, 0);
    });
    const bool said =
        error.code() == GSHMEMX_ERROR_SYSTEM &&
        std::string(error.what())
                .find("3 descriptors open (ulimit -n), with 1 hosts still to connect") !=
            std::string::npos;
    if (!said) std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(!said ? 3 : cpu_seconds() - before > 5 ? 4 : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a_leader_that_cannot_listen_says_why_when_the_others_know_that_it_does_not") {
  Spy spy;
  net::Endpoint of_nobody;
  of_nobody.ip = {192, 0, 2, 1};  // TEST-NET-1
  try {
    (void)control::connect_hosts(spy, control::group_hosts({"here", "there"}, 0), of_nobody,
                                 Config{}, 0.5);
    FAIL("it listens");
  } catch (const Error& error) {
    CHECK(error.code() == GSHMEMX_ERROR_SYSTEM);
    CHECK(error.what() == "listening on 192.0.2.1:0: " + std::string(std::strerror(EADDRNOTAVAIL)));
  }
  CHECK(spy.told.get_future().get().endpoint.port == 0);
}

TEST_CASE("who_does_not_listen_or_takes_no_call_is_an_error_that_names_its_pe") {
  const auto error_of = [](std::uint16_t port) {
    FromThem spy(port);
    try {
      (void)control::connect_hosts(spy, control::group_hosts({"here", "there"}, 1), {}, Config{},
                                   20 * test::kPatience);
    } catch (const Error& error) {
      CHECK(error.code() == GSHMEMX_ERROR_PEER_FAILED);
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(error_of(0) == "PE 0 does not listen");
  net::Endpoint loopback;
  loopback.ip = {127, 0, 0, 1};
  const std::uint16_t free = net::listen_on(loopback).endpoint.port;  // which is closed again
  CHECK(error_of(free) == "PE 1 cannot connect to PE 0 on host here at 127.0.0.1:" +
                              std::to_string(free) + ": " + std::strerror(ECONNREFUSED) +
                              "; choose the network between the hosts with GSHMEM_UID_INTERFACE");
}

TEST_CASE("a_host_that_does_not_answer_is_a_timeout") {
  // The kernel takes no more calls than this for a listener that accepts none.
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(to);
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&to), bytes) == 0);
  REQUIRE(::listen(listener.get(), 0) == 0);
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&to), &bytes) == 0);
  const Fd caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(caller.get(), reinterpret_cast<const sockaddr*>(&to), bytes) == 0);
  FromThem spy(ntohs(to.sin_port));
  try {
    (void)control::connect_hosts(spy, control::group_hosts({"here", "there"}, 1), {}, Config{},
                                 0.05);
    FAIL("it answers");
  } catch (const Error& error) {
    CHECK(error.code() == GSHMEMX_ERROR_TIMEOUT);
    CHECK(std::string(error.what()).find("PE 1 cannot connect to PE 0 on host here at ") == 0);
  }
}

TEST_CASE("who_does_not_know_the_cookie_or_is_not_expected_is_told_that_it_is_no_host") {
  const double seconds = 20 * test::kPatience;
  Fd caller;
  const std::vector<control::Link> links =
      links_with(Config{}, seconds, [&](const Spy::Contact& contact) {
        const auto say_hello = [&](int rank, const net::Cookie& cookie) {
          Fd fd = net::connect_to(contact.endpoint, Deadline(seconds)).fd;
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
                   caller = net::connect_to(contact.endpoint, Deadline(seconds)).fd;
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
  FromThem spy(listener.endpoint.port);
  const std::vector<control::Link> calls = control::connect_hosts(
      spy, control::group_hosts({"here", "there"}, 1), {}, Config{}, seconds);
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].pe == 0);
  CHECK(calls[0].other_host);
}

TEST_CASE("a_link_ends_when_a_host_is_silent_for_as_long_as_the_settings_say") {
  struct Row {
    double heartbeat, timeout;  // settings
    double limit;
    int keepalive, interval, user_timeout;  // of the socket: seconds, milliseconds
  };
  const Row row = GENERATE(
      Row{20, 0, 20, 1, 5, 15'000}, Row{20, 8, 8, 1, 2, 6'000}, Row{0, 8, 8, 1, 2, 6'000},
      Row{8, 20, 8, 1, 2, 6'000}, Row{0.5, 0, 2, 1, 1, 1'000}, Row{0.5, 20, 2, 1, 1, 1'000},
      Row{0, 1, 2, 1, 1, 1'000}, Row{1e9, 0, 1e9, 1, 25'000, 75'000'000}, Row{0, 0, 0, 0, 0, 0});
  Config config;
  config.heartbeat = row.heartbeat;
  config.timeout = row.timeout;
  INFO(row.heartbeat << " " << row.timeout);
  CHECK(control::silence_limit(config) == row.limit);
  Fd caller;
  const std::vector<control::Link> links =
      links_with(config, 20 * test::kPatience, [&](const Spy::Contact& contact) {
        const Deadline deadline(20 * test::kPatience);
        caller = net::connect_to(contact.endpoint, deadline).fd;
        const net::Frame hello =
            net::make_frame({.kind = net::FrameKind::kHello, .rank = 1}, contact.cookie);
        (void)!::send(caller.get(), hello->data(), hello->size(), MSG_NOSIGNAL);
      });
  REQUIRE(links.size() == 1);
  CHECK(links[0].pe == 1);
  CHECK(links[0].other_host);
  const auto option = [&](int level, int name) {
    int value = -1;
    socklen_t bytes = sizeof(value);
    CHECK(::getsockopt(links[0].fd.get(), level, name, &value, &bytes) == 0);
    return value;
  };
  CHECK(option(SOL_SOCKET, SO_KEEPALIVE) == row.keepalive);
  CHECK(option(IPPROTO_TCP, TCP_USER_TIMEOUT) == row.user_timeout);
  if (row.keepalive == 0) return;
  CHECK(option(IPPROTO_TCP, TCP_KEEPIDLE) == row.interval);
  CHECK(option(IPPROTO_TCP, TCP_KEEPINTVL) == row.interval);
}

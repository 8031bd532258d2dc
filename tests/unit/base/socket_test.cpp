// Tests the options of the library's TCP sockets, the errors of attempts to connect or to listen,
// and the hash of a text.
#include "host/base/net/socket.h"

#include "host/base/fd.h"

#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

using namespace gshmem;
using namespace gshmem::net;

namespace {

Endpoint loopback(Endpoint::Family family) {
  Endpoint endpoint{.family = family};
  if (family == Endpoint::Family::kIpv4)
    endpoint.ip = {127, 0, 0, 1};
  else
    endpoint.ip[15] = 1;
  return endpoint;
}

int option(const Fd& fd, int level, int name) {
  int value = -1;
  socklen_t bytes = sizeof(value);
  CHECK(::getsockopt(fd.get(), level, name, &value, &bytes) == 0);
  return value;
}

void check_stream(const Fd& fd) {
  REQUIRE(fd);
  CHECK(::fcntl(fd.get(), F_GETFD) == FD_CLOEXEC);
  CHECK((::fcntl(fd.get(), F_GETFL) & O_NONBLOCK) != 0);
  CHECK(option(fd, IPPROTO_TCP, TCP_NODELAY) == 1);
  CHECK(option(fd, SOL_SOCKET, SO_KEEPALIVE) == 1);
  CHECK(option(fd, IPPROTO_TCP, TCP_KEEPIDLE) == 15);
  CHECK(option(fd, IPPROTO_TCP, TCP_KEEPINTVL) == 5);
  CHECK(option(fd, IPPROTO_TCP, TCP_KEEPCNT) == 3);
}

}  // namespace

TEST_CASE("both_ends_of_a_connection_detect_a_host_that_vanishes_and_delay_nothing") {
  const Deadline deadline(20);
  const Listener listener = listen_on(loopback(Endpoint::Family::kIpv4));
  CHECK(::fcntl(listener.fd.get(), F_GETFD) == FD_CLOEXEC);
  CHECK(option(listener.fd, SOL_SOCKET, SO_REUSEADDR) == 1);
  CHECK(option(listener.fd, IPPROTO_TCP, TCP_DEFER_ACCEPT) >= kHandshakeSeconds);
  CHECK(endpoint_text(listener.endpoint) == "127.0.0.1:" + std::to_string(listener.endpoint.port));
  errno = 0;
  CHECK_FALSE(accept_from(listener.fd));
  CHECK(errno == EAGAIN);
  const Attempt attempt = connect_to(listener.endpoint, deadline);
  CHECK(attempt.error == 0);
  check_stream(attempt.fd);
  REQUIRE(::send(attempt.fd.get(), "?", 1, 0) == 1);
  REQUIRE(wait_for(listener.fd, POLLIN, deadline));
  const Fd accepted = accept_from(listener.fd);
  check_stream(accepted);
  CHECK_FALSE(wait_for(attempt.fd, POLLIN, Deadline(0.01)));
  CHECK(wait_for(attempt.fd, POLLOUT, Deadline(0.01)));
}

TEST_CASE("a_port_that_is_in_use_or_closed_is_reported") {
  const Endpoint any = loopback(Endpoint::Family::kIpv4);
  Listener listener = listen_on(any);
  const Endpoint taken = listener.endpoint;
  CHECK_THROWS_WITH(listen_on(taken),
                    "listening on " + endpoint_text(taken) + ": Address already in use");
  bool in_use = false;
  CHECK_FALSE(listen_on(taken, &in_use).fd);
  CHECK(in_use);
  listener.fd = Fd();
  in_use = false;
  CHECK(listen_on(any, &in_use).fd);
  CHECK_FALSE(in_use);
  const Attempt attempt = connect_to(taken, Deadline(20));
  CHECK_FALSE(attempt.fd);
  CHECK(attempt.error == ECONNREFUSED);
  Endpoint all = taken;  // refused at once
  all.ip = {255, 255, 255, 255};
  const Attempt other = connect_to(all, Deadline(20));
  CHECK_FALSE(other.fd);
  CHECK(other.error == ENETUNREACH);
}

// A rank that called before the root listened held the root's port for a minute.
TEST_CASE("a_call_that_reaches_only_itself_is_refused_and_leaves_the_port_free") {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(77);
    const Fd any(::socket(AF_INET, SOCK_DGRAM, 0));
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP;
    std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "40000 40001";
    if (::ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) ::_exit(77);
    Endpoint port = loopback(Endpoint::Family::kIpv4);
    port.port = 40000;
    for (int i = 0; i < 8; ++i) {
      if (connect_to(port, Deadline(20)).error != ECONNREFUSED) ::_exit(1);
    }
    bool in_use = false;
    ::_exit(listen_on(port, &in_use).fd && !in_use ? 0 : 2);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77)
    std::printf("skipped: no network namespace can be made\n");
  else
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("an_address_with_its_port_is_resolved_and_another_text_is_an_error_that_names_it") {
  const auto error_of = [](const std::string& address) -> std::string {
    try {
      (void)resolve(address, AddressFamily::kAny);
    } catch (const Error& error) {
      CHECK(error.code() == GSHMEMX_ERROR_CONFIG);
      const std::string begin = "GSHMEM_UID_ADDRESS=\"" + address + "\": ", text = error.what();
      CHECK(text.starts_with(begin));
      return text.substr(begin.size());
    }
    return "none";
  };
  for (const char* text : {"", "4711", ":4711", "[]:4711", "::1:4711", "[::1:4711", "::1]:4711"})
    CHECK(error_of(text) == "expected host:port or [ipv6]:port");
  for (const char* port : {"", "0", "65536", "-1", "1x", "x1", " 1", "99999999999"})
    CHECK(error_of(std::string("127.0.0.1:") + port) == "the port must be in 1..65535");
  const auto texts = [](const std::string& address, AddressFamily family) {
    std::vector<std::string> all;
    for (const Endpoint& endpoint : resolve(address, family))
      all.push_back(endpoint_text(endpoint));
    return all;
  };
  using Texts = std::vector<std::string>;
  CHECK(texts("127.0.0.1:1", AddressFamily::kAny) == Texts{"127.0.0.1:1"});
  CHECK(texts("127.0.0.1:1", AddressFamily::kIpv4) == Texts{"127.0.0.1:1"});
  CHECK(texts("[127.0.0.1]:1", AddressFamily::kAny) == Texts{"127.0.0.1:1"});
  CHECK(texts("[::1]:65535", AddressFamily::kAny) == Texts{"[::1]:65535"});
  CHECK(texts("[::1]:65535", AddressFamily::kIpv6) == Texts{"[::1]:65535"});
  const std::string why = ::gai_strerror(EAI_ADDRFAMILY);
  CHECK_THROWS_WITH(resolve("127.0.0.1:1", AddressFamily::kIpv6), Catch::EndsWith(": " + why));
  CHECK_THROWS_WITH(resolve("[::1]:1", AddressFamily::kIpv4), Catch::EndsWith(": " + why));
}

TEST_CASE("a_text_has_the_same_cookie_everywhere_and_random_ones_differ") {
  using Halves = std::array<std::uint64_t, 2>;
  // The expected values are FNV-1a of the text and 0xff, computed by hand from the offset basis and
  // from the next number.
  CHECK(std::bit_cast<Halves>(cookie_of("abc")) == Halves{0x365d0c5d2e23c491, 0x9eb4c56cd9aa8412});
  CHECK(random_cookie() != random_cookie());
}

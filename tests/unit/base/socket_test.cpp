// What a TCP socket of the library is set to, what an attempt to connect or to listen says, and the
// number that a text stands for.
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

TEST_CASE("both_ends_of_a_connection_notice_a_host_that_vanishes_and_delay_nothing") {
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

TEST_CASE("a_caller_by_descriptor_0_is_one_as_all_others_are") {
  const Fd before(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!before) return;  // it may be anybody's
  const Deadline deadline(20);
  const Listener listener = listen_on(loopback(Endpoint::Family::kIpv4));
  const Attempt attempt = connect_to(listener.endpoint, deadline);
  REQUIRE(::send(attempt.fd.get(), "?", 1, 0) == 1);
  REQUIRE(wait_for(listener.fd, POLLIN, deadline));
  ::close(STDIN_FILENO);
  {
    const Fd accepted = accept_from(listener.fd);
    CHECK(accepted.get() == STDIN_FILENO);
  }
  CHECK(::dup2(before.get(), STDIN_FILENO) == STDIN_FILENO);
}

TEST_CASE("a_port_that_is_taken_or_that_nobody_listens_on_is_told") {
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

TEST_CASE("a_connection_that_meets_itself_is_none") {
  if (::geteuid() != 0) {
    std::puts("skipped: only root can have a network namespace whose ports are few");
    return;
  }
  constexpr std::uint16_t kPort = 41001;  // the only one that is given to clients there
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(0);  // not allowed here
    ifreq lo{};
    std::strcpy(lo.ifr_name, "lo");
    lo.ifr_flags = IFF_UP;
    const Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const Fd ports(::open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC));
    const std::string range = std::to_string(kPort) + " " + std::to_string(kPort) + "\n";
    if (::ioctl(any.get(), SIOCSIFFLAGS, &lo) != 0 ||
        ::write(ports.get(), range.data(), range.size()) < 0)
      ::_exit(0);
    Endpoint self = loopback(Endpoint::Family::kIpv4);
    self.port = kPort;
    ::_exit(connect_to(self, Deadline(20)).fd ? 1 : 0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a_socket_of_ipv6_is_of_that_alone") {
  const Endpoint any = loopback(Endpoint::Family::kIpv6);
  bool in_use = false;
  Listener listener;
  try {
    listener = listen_on(any, &in_use);
  } catch (const Error&) {
    return;  // a host without IPv6
  }
  CHECK(option(listener.fd, IPPROTO_IPV6, IPV6_V6ONLY) == 1);
  CHECK(endpoint_text(listener.endpoint) == "[::1]:" + std::to_string(listener.endpoint.port));
}

TEST_CASE("an_address_of_a_link_is_one_of_its_interface") {
  Endpoint stranger{.family = Endpoint::Family::kIpv6, .port = 4711};
  stranger.ip = {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x47, 0x11};
  const auto error_of = [&] {
    try {
      (void)listen_on(stranger);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string without = error_of();
  if (without.find("Invalid argument") == std::string::npos) return;  // a host without IPv6
  stranger.scope = if_nametoindex("lo");
  CHECK(error_of() == "listening on [fe80::4711%lo]:4711: Cannot assign requested address");
}

TEST_CASE("addresses_of_this_host_alone_and_of_a_link_alone_are_told_from_others") {
  const auto v4 = [](std::uint8_t first) {
    Endpoint endpoint;
    endpoint.ip = {first, 0x80, 0, 1};
    return endpoint;
  };
  const auto v6 = [](std::uint8_t first, std::uint8_t second, std::uint8_t last) {
    Endpoint endpoint{.family = Endpoint::Family::kIpv6};
    endpoint.ip[0] = first;
    endpoint.ip[1] = second;
    endpoint.ip[15] = last;
    return endpoint;
  };
  CHECK(is_loopback(v4(127)));
  CHECK_FALSE(is_loopback(v4(126)));
  CHECK_FALSE(is_loopback(v4(128)));
  CHECK(is_loopback(v6(0, 0, 1)));
  CHECK_FALSE(is_loopback(v6(0, 0, 0)));
  CHECK_FALSE(is_loopback(v6(0, 0, 2)));
  CHECK_FALSE(is_loopback(v6(1, 0, 1)));
  Endpoint long_one = v6(0, 0, 1);
  long_one.ip[14] = 1;
  CHECK_FALSE(is_loopback(long_one));
  using Bytes = std::initializer_list<std::uint8_t>;
  for (const std::uint8_t second : Bytes{0x80, 0x9F, 0xBF})
    CHECK(is_link_local(v6(0xFE, second, 1)));
  for (const std::uint8_t second : Bytes{0x7F, 0xC0, 0x00})
    CHECK_FALSE(is_link_local(v6(0xFE, second, 1)));
  CHECK_FALSE(is_link_local(v6(0xFF, 0x80, 1)));
  CHECK_FALSE(is_link_local(v4(0xFE)));
}

TEST_CASE("an_address_of_the_system_is_an_endpoint_with_its_port_and_interface") {
  CHECK_FALSE(endpoint_from(nullptr));
  sockaddr other{};
  other.sa_family = AF_UNIX;
  CHECK_FALSE(endpoint_from(&other));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(4711);
  v4.sin_addr.s_addr = htonl(0x0A000102);
  CHECK(endpoint_text(endpoint_from(reinterpret_cast<const sockaddr*>(&v4)).value()) ==
        "10.0.1.2:4711");
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(4712);
  v6.sin6_addr.s6_addr[0] = 0xFE;
  v6.sin6_addr.s6_addr[1] = 0x80;
  v6.sin6_addr.s6_addr[15] = 7;
  v6.sin6_scope_id = if_nametoindex("lo");
  const auto* const address = reinterpret_cast<const sockaddr*>(&v6);
  CHECK(endpoint_text(endpoint_from(address).value()) == "[fe80::7%lo]:4712");
  v6.sin6_scope_id = 1'000'000;  // no interface of this host
  CHECK(address_text(endpoint_from(address).value()) == "fe80::7%1000000");
  v6.sin6_scope_id = 0;
  CHECK(address_text(endpoint_from(address).value()) == "fe80::7");
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
    CHECK(error_of(std::string("127.0.0.1:") + port) == "the port has to lie in 1..65535");
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

TEST_CASE("a_text_has_the_same_cookie_everywhere_and_a_random_one_comes_once") {
  using Halves = std::array<std::uint64_t, 2>;
  // FNV-1a of the text and 0xff, twice, from its offset basis and the number after that; by hand.
  CHECK(std::bit_cast<Halves>(cookie_of("abc")) == Halves{0x365d0c5d2e23c491, 0x9eb4c56cd9aa8412});
  CHECK(random_cookie() != random_cookie());
}

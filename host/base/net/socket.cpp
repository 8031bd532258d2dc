#include "host/base/net/socket.h"

#include "host/base/fd.h"
#include "host/base/random.h"
#include "host/base/system_call.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace gshmem::net {
namespace {

/// An endpoint in the form that socket calls take.
struct SocketAddress {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t bytes;

  SocketAddress() : v6{}, bytes(sizeof v6) {}
  explicit SocketAddress(const Endpoint& endpoint) : SocketAddress() {
    if (endpoint.family == Endpoint::Family::kIpv4) {
      bytes = sizeof v4;
      v4.sin_family = AF_INET;
      v4.sin_port = htons(endpoint.port);
      std::memcpy(&v4.sin_addr, endpoint.ip.data(), sizeof v4.sin_addr);
    } else {
      v6.sin6_family = AF_INET6;
      v6.sin6_port = htons(endpoint.port);
      std::memcpy(&v6.sin6_addr, endpoint.ip.data(), sizeof v6.sin6_addr);
      v6.sin6_scope_id = endpoint.scope;
    }
  }
};

void set_option(const Fd& fd, int level, int option, int value) {
  check_errno(setsockopt(fd.get(), level, option, &value, sizeof value), "setsockopt");
}

/// Small frames are sent without delay. A host that vanishes silently is detected within half a
/// minute.
void prepare_stream(const Fd& fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, true);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, true);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

Fd new_socket(const Endpoint& endpoint) {
  const int family = endpoint.family == Endpoint::Family::kIpv4 ? AF_INET : AF_INET6;
  Fd fd(static_cast<int>(
      check_errno(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket")));
  if (family == AF_INET6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, true);
  return fd;
}

Endpoint local_endpoint(const Fd& fd) {
  SocketAddress address;
  check_errno(getsockname(fd.get(), &address.any, &address.bytes), "getsockname");
  return endpoint_from(&address.any).value_or(Endpoint{});
}

/// "host:port" or "[ipv6]:port". The host is empty if the text is neither.
struct HostAndPort {
  std::string host, port;
};
HostAndPort split(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return {};
  std::string host = address.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!bracketed && host.find(':') != std::string::npos) return {};
  return {host, address.substr(colon + 1)};
}

}  // namespace

std::string address_text(const Endpoint& endpoint) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool v4 = endpoint.family == Endpoint::Family::kIpv4;
  inet_ntop(v4 ? AF_INET : AF_INET6, endpoint.ip.data(), text, sizeof text);
  if (endpoint.scope == 0) return text;
  char name[IF_NAMESIZE] = "";
  const bool named = if_indextoname(endpoint.scope, name) != nullptr;
  return std::string(text) + "%" + (named ? name : std::to_string(endpoint.scope));
}

bool is_loopback(const Endpoint& endpoint) {
  if (endpoint.family == Endpoint::Family::kIpv4) return endpoint.ip[0] == 127;
  const auto rest = endpoint.ip.end() - 1;  // ::1
  return *rest == 1 && std::all_of(endpoint.ip.begin(), rest, [](auto byte) { return byte == 0; });
}

bool is_link_local(const Endpoint& endpoint) {
  // fe80::/10, RFC 4291 section 2.5.6.
  return endpoint.family == Endpoint::Family::kIpv6 && endpoint.ip[0] == 0xFE &&
         (endpoint.ip[1] & 0xC0) == 0x80;
}

std::string endpoint_text(const Endpoint& endpoint) {
  const bool v4 = endpoint.family == Endpoint::Family::kIpv4;
  return strprintf(v4 ? "%s:%u" : "[%s]:%u", address_text(endpoint).c_str(),
                   unsigned{endpoint.port});
}

std::optional<Endpoint> endpoint_from(const sockaddr* address) {
  Endpoint endpoint;
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof v4);
    std::memcpy(endpoint.ip.data(), &v4.sin_addr, sizeof v4.sin_addr);
    endpoint.port = ntohs(v4.sin_port);
    return endpoint;
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6{};
  std::memcpy(&v6, address, sizeof v6);
  endpoint.family = Endpoint::Family::kIpv6;
  std::memcpy(endpoint.ip.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
  endpoint.port = ntohs(v6.sin6_port);
  endpoint.scope = v6.sin6_scope_id;
  return endpoint;
}

std::vector<Endpoint> resolve(const std::string& address, AddressFamily family) {
  const auto bad = [&](const std::string& why) {
    return Error(GSHMEMX_ERROR_CONFIG, "GSHMEM_UID_ADDRESS=\"" + address + "\": " + why);
  };
  const auto [host, port] = split(address);
  if (host.empty()) throw bad("expected host:port or [ipv6]:port");
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size() || number < 1 || number > 65535)
    throw bad("the port must be in 1..65535");

  addrinfo hints{};
  hints.ai_family = family == AddressFamily::kIpv4   ? AF_INET
                    : family == AddressFamily::kIpv6 ? AF_INET6
                                                     : AF_UNSPEC;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (status != 0) throw bad(gai_strerror(status));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::vector<Endpoint> endpoints;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const auto endpoint = endpoint_from(entry->ai_addr);
    if (!endpoint || (is_link_local(*endpoint) && endpoint->scope == 0)) continue;
    if (std::ranges::find(endpoints, *endpoint) == endpoints.end()) endpoints.push_back(*endpoint);
  }
  if (endpoints.empty())
    throw bad("a link-local address needs this host's interface, as in [fe80::1%eth0]:port");
  return endpoints;
}

std::vector<Endpoint> to_listen_on(const std::string& address, AddressFamily family,
                                   const std::vector<Endpoint>& resolved) {
  const std::string host = split(address).host;
  std::array<std::uint8_t, 16> bytes{};
  const bool literal = inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
                       inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
  // Every host calls itself by these names: localhost, ip6-localhost, ip6-loopback.
  const bool meant = literal || host.find("localhost") != std::string::npos ||
                     host.find("loopback") != std::string::npos;
  if (meant || !std::ranges::all_of(resolved, is_loopback)) return resolved;
  std::vector<Endpoint> any;
  for (const auto each : {Endpoint::Family::kIpv4, Endpoint::Family::kIpv6}) {
    const bool v4 = each == Endpoint::Family::kIpv4;
    if (family == AddressFamily::kAny || (family == AddressFamily::kIpv4) == v4)
      any.push_back({.family = each, .port = resolved.front().port});
  }
  return any;
}

Listener listen_on(const Endpoint& endpoint, bool* in_use) {
  Listener listener{new_socket(endpoint), {}};
  // The connections of a job that has ended may still hold the port; another listener may not.
  set_option(listener.fd, SOL_SOCKET, SO_REUSEADDR, true);
  // A caller that sends nothing costs the kernel a little, and this process no descriptor. If the
  // system lacks the option, the limits of the code that accepts have to suffice.
  const int silent_seconds = static_cast<int>(kHandshakeSeconds);
  (void)setsockopt(listener.fd.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &silent_seconds,
                   sizeof silent_seconds);
  const SocketAddress address(endpoint);
  constexpr int kBacklog = 4096;  // all ranks of a job may connect at the same time
  const bool failed = bind(listener.fd.get(), &address.any, address.bytes) != 0 ||
                      listen(listener.fd.get(), kBacklog) != 0;
  if (failed && errno == EADDRINUSE && in_use != nullptr) {
    *in_use = true;
    return {};
  }
  if (failed) check_errno(-1, "listening on " + endpoint_text(endpoint));
  listener.endpoint = local_endpoint(listener.fd);
  return listener;
}

Fd accept_from(const Fd& listener) {
  SocketAddress caller;
  const int fd = uninterrupted([&] {
    return accept4(listener.get(), &caller.any, &caller.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
  });
  if (fd < 0) return {};
  Fd accepted(fd);
  if (caller.any.sa_family != AF_UNIX) prepare_stream(accepted);
  return accepted;
}

Attempt connect_to(const Endpoint& endpoint, const Deadline& deadline) {
  Fd fd = new_socket(endpoint);
  const SocketAddress address(endpoint);
  if (connect(fd.get(), &address.any, address.bytes) != 0 && errno != EINPROGRESS)
    return {{}, errno};
  if (!wait_for(fd, POLLOUT, deadline)) return {{}, ETIMEDOUT};
  int error = 0;
  socklen_t bytes = sizeof error;
  check_errno(getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &bytes), "getsockopt");
  if (error != 0) return {{}, error};
  // If no process listens, a connection to an ephemeral port of this host can connect to itself. It
  // is closed by a reset: in TIME_WAIT it would prevent a listener from using the port.
  if (local_endpoint(fd) == endpoint) {
    const linger reset{.l_onoff = 1, .l_linger = 0};
    check_errno(setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset), "setsockopt");
    return {{}, ECONNREFUSED};
  }
  prepare_stream(fd);
  return {std::move(fd), 0};
}

bool wait_for(const Fd& fd, short events, const Deadline& deadline) {
  pollfd entry = polled(fd.get(), events);
  do {
    if (poll_once({&entry, 1}, deadline.poll_ms()) > 0) return true;
  } while (!deadline.passed());
  return false;
}

Cookie cookie_of(std::string_view text) {
  std::array<std::uint64_t, 2> halves{0xCBF29CE484222325u, 0xCBF29CE484222326u};
  for (std::uint64_t& hash : halves) {
    for (int round = 0; round < 2; ++round) {
      for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
      hash = (hash ^ 0xFFu) * 0x100000001B3u;
    }
  }
  return std::bit_cast<Cookie>(halves);
}

Cookie random_cookie() { return random_bits<Cookie>(); }

}  // namespace gshmem::net

// TCP sockets: owned, non-blocking, close-on-exec. Included by what connects processes. Errors are
// thrown with call and address; EINTR never reaches the caller.
#pragma once

#include "host/base/config.h"
#include "host/base/deadline.h"
#include "host/base/error.h"
#include "host/base/fd.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct sockaddr;

namespace gshmem::net {

/// An IPv4 or IPv6 address and a TCP port.
struct Endpoint {
  enum class Family : std::uint8_t { kIpv4 = 4, kIpv6 = 6 };
  Family family = Family::kIpv4;
  std::array<std::uint8_t, 16> ip{};  ///< network order; IPv4 takes the first four
  std::uint16_t port = 0;
  std::uint32_t scope =
      0;  ///< of a link-local address: the interface of this host; means nothing on others
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// What tells the processes of a job from strangers.
using Cookie = std::array<std::byte, 16>;
[[nodiscard]] Cookie random_cookie();
/// A hash of a text: FNV-1a with 64 bits, twice. Texts that differ have others; who sees it may
/// find the text, so that no secret belongs in here.
[[nodiscard]] Cookie cookie_of(std::string_view text);

/// "10.0.0.1:4711" or "[fe80::1]:4711".
[[nodiscard]] std::string endpoint_text(const Endpoint& endpoint);
/// "10.0.0.1" or "fd00::1"; with its interface where it is bound to one, "fe80::1%eth0".
[[nodiscard]] std::string address_text(const Endpoint& endpoint);
/// An IPv6 address that means nothing without the interface, which is another one on every host.
[[nodiscard]] bool is_link_local(const Endpoint& endpoint);
/// Empty unless `address` is IPv4 or IPv6.
[[nodiscard]] std::optional<Endpoint> endpoint_from(const sockaddr* address);

/// The addresses of "host:port" or "[ipv6]:port", of `family`. Errors:
/// GSHMEMX_ERROR_CONFIG naming GSHMEM_UID_ADDRESS.
[[nodiscard]] std::vector<Endpoint> resolve(const std::string& address, AddressFamily family);

/// Where rank 0 listens for those who know it as `address`, which stands for `resolved` here. A
/// name that is a loopback address on its own host only (Debian: 127.0.1.1) is another one to the
/// others, and any address of this host may be it.
[[nodiscard]] std::vector<Endpoint> to_listen_on(const std::string& address, AddressFamily family,
                                                 const std::vector<Endpoint>& resolved);

/// A listening socket and where it listens (port 0 = any free one). Errors: GSHMEMX_ERROR_SYSTEM;
/// `*in_use`, where given, is set instead of throwing when another process has the port.
struct Listener {
  Fd fd;
  Endpoint endpoint;
};
[[nodiscard]] Listener listen_on(const Endpoint& endpoint, bool* in_use = nullptr);

/// The next waiting connection, of a Unix socket also, or none; errno says why.
[[nodiscard]] Fd accept_from(const Fd& listener);

/// One attempt. No socket when refused, unreachable or too late; `*why` says which.
struct Attempt {
  Fd fd;
  int error = 0;  ///< errno of the attempt that failed
};
[[nodiscard]] Attempt connect_to(const Endpoint& endpoint, const Deadline& deadline);

/// Waits for `events` (POLLIN, POLLOUT) on one descriptor; false when the deadline passed first.
bool wait_for(const Fd& fd, short events, const Deadline& deadline);

/// Only processes of this host reach it.
[[nodiscard]] bool is_loopback(const Endpoint& endpoint);

}  // namespace gshmem::net

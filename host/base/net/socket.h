// TCP sockets: owned, non-blocking, close-on-exec. Included by code that connects processes. Errors
// are thrown with the call and the address; EINTR never reaches the caller.
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
  std::uint32_t scope = 0;  ///< interface of a link-local address; it is valid on this host only
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// Distinguishes the processes of a job from strangers.
using Cookie = std::array<std::byte, 16>;
[[nodiscard]] Cookie random_cookie();
/// Returns a hash of a text: FNV-1a with 64 bits, twice. Different texts have different hashes. The
/// text may be recovered from the hash, so it must not be a secret.
[[nodiscard]] Cookie cookie_of(std::string_view text);

/// Returns for example "10.0.0.1:4711" or "[fe80::1]:4711".
[[nodiscard]] std::string endpoint_text(const Endpoint& endpoint);
/// Returns for example "10.0.0.1" or "fd00::1"; with the interface if it is bound to one,
/// "fe80::1%eth0".
[[nodiscard]] std::string address_text(const Endpoint& endpoint);
/// Is it an IPv6 address that is valid only with an interface, which differs between hosts?
[[nodiscard]] bool is_link_local(const Endpoint& endpoint);
/// Returns nothing unless `address` is IPv4 or IPv6.
[[nodiscard]] std::optional<Endpoint> endpoint_from(const sockaddr* address);

/// Returns the addresses of "host:port" or "[ipv6]:port", of `family`. Errors:
/// GSHMEMX_ERROR_CONFIG, which names GSHMEM_UID_ADDRESS.
[[nodiscard]] std::vector<Endpoint> resolve(const std::string& address, AddressFamily family);

/// Returns the endpoints on which rank 0 listens for ranks that know it as `address`. This host
/// resolves `address` to `resolved`. A host name may be a loopback address on its own host only
/// (Debian: 127.0.1.1). Other hosts resolve it differently, and any address of this host may be
/// meant.
[[nodiscard]] std::vector<Endpoint> to_listen_on(const std::string& address, AddressFamily family,
                                                 const std::vector<Endpoint>& resolved);

/// A listening socket and the endpoint on which it listens (port 0 = any free port). Errors:
/// GSHMEMX_ERROR_SYSTEM. If another process has the port and `in_use` is given, `*in_use` is set
/// instead of throwing.
struct Listener {
  Fd fd;
  Endpoint endpoint;
};
[[nodiscard]] Listener listen_on(const Endpoint& endpoint, bool* in_use = nullptr);

/// Accepts the next pending connection, also of a Unix socket. Returns an empty Fd if there is
/// none; errno has the reason.
[[nodiscard]] Fd accept_from(const Fd& listener);

/// Makes one attempt to connect. There is no socket when it was refused, unreachable or too late;
/// `error` has the reason.
struct Attempt {
  Fd fd;
  int error = 0;  ///< errno of the attempt that failed
};
[[nodiscard]] Attempt connect_to(const Endpoint& endpoint, const Deadline& deadline);

/// Waits for `events` (POLLIN, POLLOUT) on one descriptor; returns false when the deadline passed
/// first.
bool wait_for(const Fd& fd, short events, const Deadline& deadline);

/// Can only processes of this host reach it?
[[nodiscard]] bool is_loopback(const Endpoint& endpoint);

}  // namespace gshmem::net

// TCP sockets as the uid bootstrap uses them: owned, non-blocking, close-on-exec. Included by
// bootstrap/uid. Errors are thrown with call and address; EINTR never reaches the caller.
#pragma once

#include "bootstrap/deadline.h"
#include "bootstrap/uid/wire.h"
#include "host/base/error.h"
#include "host/base/fd.h"

#include <utility>

struct sockaddr;

namespace gshmem::bootstrap {

/// "10.0.0.1:4711" or "[fe80::1]:4711".
[[nodiscard]] std::string endpoint_text(const Endpoint& endpoint);
/// "10.0.0.1" or "fe80::1".
[[nodiscard]] std::string address_text(const Endpoint& endpoint);
/// Empty unless `address` is IPv4 or IPv6.
[[nodiscard]] std::optional<Endpoint> endpoint_from(const sockaddr* address);

/// The addresses of "host:port" or "[ipv6]:port", of `family` ("any", "ipv4", "ipv6"). Errors:
/// GSHMEMX_ERROR_CONFIG naming GSHMEM_UID_ADDRESS.
[[nodiscard]] std::vector<Endpoint> resolve(const std::string& address, const std::string& family);

/// A listening socket and where it listens (port 0 = any free one). Errors: GSHMEMX_ERROR_SYSTEM;
/// `*in_use`, where given, is set instead of throwing when another process has the port.
struct Listener {
  Fd fd;
  Endpoint endpoint;
};
[[nodiscard]] Listener listen_on(const Endpoint& endpoint, bool* in_use = nullptr);

/// The next waiting connection, or none; errno says why.
[[nodiscard]] Fd accept_from(const Fd& listener);

/// One attempt. No socket when refused, unreachable or too late; `*why` says which.
struct Attempt {
  Fd fd;
  int error = 0;  ///< errno of the attempt that failed
};
[[nodiscard]] Attempt connect_to(const Endpoint& endpoint, const Deadline& deadline);

/// Waits for `events` (POLLIN, POLLOUT) on one descriptor; false when the deadline passed first.
bool wait_for(const Fd& fd, short events, const Deadline& deadline);

[[nodiscard]] Cookie random_cookie();

}  // namespace gshmem::bootstrap

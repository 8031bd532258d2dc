// Finds the user of the other end of a TCP connection, from the kernel's tables. Included by code
// that listens where any user of the host may connect.
#pragma once

#include "host/base/fd.h"

#include <sys/types.h>

#include <optional>
#include <string>

namespace gshmem::net {

/// Returns the user whose process has the other end. Empty if that process is not in this host and
/// network namespace, or if /proc does not show it.
[[nodiscard]] std::optional<uid_t> peer_user(const Fd& connection);
/// Returns the address of the other end, for example "10.0.0.1:4711".
[[nodiscard]] std::string peer_text(const Fd& connection);
/// Does /proc show the users of connections over `::1` and 127.0.0.1?
[[nodiscard]] bool peer_users_known();

}  // namespace gshmem::net

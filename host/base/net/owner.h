// Whose the other end of a TCP connection is, by the kernel's word. Included by what listens where
// any user of the host may call.
#pragma once

#include "host/base/fd.h"

#include <sys/types.h>

#include <optional>
#include <string>

namespace gshmem::net {

/// The user whose process has the other end; empty where that is not of this host and its network
/// namespace, or /proc does not tell.
[[nodiscard]] std::optional<uid_t> peer_user(const Fd& connection);
/// "10.0.0.1:4711", the address of the other end.
[[nodiscard]] std::string peer_text(const Fd& connection);
/// /proc tells it of connections over `::1` and 127.0.0.1.
[[nodiscard]] bool peer_users_known();

}  // namespace gshmem::net

// What is packed in a gshmemx_uniqueid: where the root service listens, and proof of membership.
// Included by bootstrap/uid and its tests. Big-endian; the decoder accepts exactly what the encoder
// can produce, whoever wrote it.
#pragma once

#include "host/base/net/socket.h"

#include <gshmem/uniqueid.h>

#include <optional>
#include <vector>

namespace gshmem::bootstrap {

/// An address of the process that has made the id, and what others need to judge it.
struct RootAddress {
  net::Endpoint endpoint;
  std::uint8_t prefix_bits = 0;  ///< that its network has in common
  friend bool operator==(const RootAddress&, const RootAddress&) = default;
};

struct UniqueId {
  std::vector<RootAddress> roots;  ///< best first
  net::Cookie cookie{};            ///< which its ranks prove that they know
  friend bool operator==(const UniqueId&, const UniqueId&) = default;
};

constexpr int kUniqueIdVersion = 1;
/// Packs as many of the addresses as there is room for: 13 of IPv4, 5 of IPv6.
void encode_uniqueid(const UniqueId& id, gshmemx_uniqueid* packed);
/// Empty when the bytes are no id of this version (zeroed, truncated, another library's).
[[nodiscard]] std::optional<UniqueId> decode_uniqueid(const gshmemx_uniqueid& packed);

}  // namespace gshmem::bootstrap

// The contents of a gshmemx_uniqueid: the addresses at which the root service listens, and a proof
// of membership. Included by bootstrap/uid and its tests. It is big-endian. The decoder accepts
// exactly what the encoder can produce, whoever wrote it.
#pragma once

#include "host/base/net/socket.h"

#include <gshmem/uniqueid.h>

#include <optional>
#include <vector>

namespace gshmem::bootstrap {

/// An address of the process that has made the id, with the properties that others need to judge
/// it.
struct RootAddress {
  net::Endpoint endpoint;
  std::uint8_t prefix_bits = 0;  ///< length of the network prefix in the address
  friend bool operator==(const RootAddress&, const RootAddress&) = default;
};

struct UniqueId {
  std::vector<RootAddress> roots;  ///< best first
  net::Cookie cookie{};            ///< secret that the ranks prove to know
  /// By HMAC; false where the id was made without libcrypto: then each side shows its half.
  bool proved = false;
  friend bool operator==(const UniqueId&, const UniqueId&) = default;
};

constexpr int kUniqueIdVersion = 1;
/// Packs as many of the addresses as fit: 13 of IPv4, 5 of IPv6.
void encode_uniqueid(const UniqueId& id, gshmemx_uniqueid* packed);
/// Returns nothing when the bytes are not an id of this version (zeroed, truncated, another
/// library's).
[[nodiscard]] std::optional<UniqueId> decode_uniqueid(const gshmemx_uniqueid& packed);

}  // namespace gshmem::bootstrap

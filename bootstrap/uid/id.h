// What is packed in a gshmemx_uniqueid: where the root service listens, and proof of membership.
// Included by bootstrap/uid and its tests. Big-endian; the decoder accepts exactly what the encoder
// can produce, whoever wrote it.
#pragma once

#include "host/base/net/socket.h"

#include <gshmem/uniqueid.h>

#include <optional>

namespace gshmem::bootstrap {

struct UniqueId {
  net::Endpoint root;
  net::Cookie cookie{};
  friend bool operator==(const UniqueId&, const UniqueId&) = default;
};

constexpr int kUniqueIdVersion = 1;
void encode_uniqueid(const UniqueId& id, gshmemx_uniqueid* packed);
/// Empty when the bytes are no id of this version (zeroed, truncated, another library's).
[[nodiscard]] std::optional<UniqueId> decode_uniqueid(const gshmemx_uniqueid& packed);

}  // namespace gshmem::bootstrap

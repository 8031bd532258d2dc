#include "bootstrap/uid/id.h"

#include <endian.h>

#include <cstring>

namespace gshmem::bootstrap {
namespace {

// "GUI2" and "GUI3": ranks show their half of the secret, or prove to know it.
constexpr std::uint32_t kShown = 0x47554932, kProved = 0x47554933;

/// The header of an id. Addresses follow it, and the rest of the id is zero.
struct Head {
  std::uint8_t magic[4];
  net::Cookie cookie;
};
static_assert(sizeof(Head) == 20);

/// The header of an address. 4 or 16 bytes of address follow it. Family 0 marks the end of the
/// addresses.
struct AddressHead {
  std::uint8_t family, prefix_bits, port[2];
};
static_assert(sizeof(AddressHead) == 4);

std::size_t bytes_of(std::uint8_t family) { return family == 4 ? 4 : 16; }

template <class Field, class Value>
void store(Field& field, Value value) {
  static_assert(sizeof(field) == sizeof(value));
  std::memcpy(&field, &value, sizeof(value));
}

}  // namespace

void encode_uniqueid(const UniqueId& id, gshmemx_uniqueid* packed) {
  *packed = {};
  packed->version = kUniqueIdVersion;
  Head head{};
  store(head.magic, htobe32(id.proved ? kProved : kShown));
  head.cookie = id.cookie;
  std::memcpy(packed->internal, &head, sizeof(head));
  std::size_t at = sizeof(head);
  for (const auto& [endpoint, prefix_bits] : id.roots) {
    AddressHead wire{static_cast<std::uint8_t>(endpoint.family), prefix_bits, {}};
    store(wire.port, htobe16(endpoint.port));
    const std::size_t bytes = bytes_of(wire.family);
    if (at + sizeof(wire) + bytes > sizeof(packed->internal)) break;
    std::memcpy(packed->internal + at, &wire, sizeof(wire));
    std::memcpy(packed->internal + at + sizeof(wire), endpoint.ip.data(), bytes);
    at += sizeof(wire) + bytes;
  }
}

std::optional<UniqueId> decode_uniqueid(const gshmemx_uniqueid& packed) {
  UniqueId id;
  Head head;
  std::memcpy(&head, packed.internal, sizeof(head));
  id.cookie = head.cookie;
  std::uint32_t magic = 0;
  std::memcpy(&magic, head.magic, sizeof(magic));
  id.proved = be32toh(magic) == kProved;
  std::size_t at = sizeof(head);
  AddressHead wire;
  while (at + sizeof(wire) <= sizeof(packed.internal)) {
    std::memcpy(&wire, packed.internal + at, sizeof(wire));
    at += sizeof(wire);
    const std::size_t bytes = bytes_of(wire.family);
    if ((wire.family != 4 && wire.family != 6) || at + bytes > sizeof(packed.internal)) break;
    RootAddress& root = id.roots.emplace_back();
    root.endpoint.family = static_cast<net::Endpoint::Family>(wire.family);
    root.prefix_bits = wire.prefix_bits;
    std::uint16_t port = 0;
    std::memcpy(&port, wire.port, sizeof(port));
    root.endpoint.port = be16toh(port);
    std::memcpy(root.endpoint.ip.data(), packed.internal + at, bytes);
    at += bytes;
    if (port == 0) return std::nullopt;
  }
  gshmemx_uniqueid again;
  encode_uniqueid(id, &again);
  if (id.roots.empty() || std::memcmp(&again, &packed, sizeof(packed)) != 0) return std::nullopt;
  return id;
}

}  // namespace gshmem::bootstrap

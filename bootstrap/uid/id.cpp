#include "bootstrap/uid/id.h"

#include <endian.h>

#include <cstring>

namespace gshmem::bootstrap {
namespace {

constexpr std::uint32_t kMagic = 0x47554944;  // "GUID"

/// As the id's bytes begin; the rest of them is zero.
struct Packed {
  std::uint8_t magic[4], family, ip[16], port[2];
  net::Cookie cookie;
};
static_assert(sizeof(Packed) == 39 && sizeof(Packed) <= sizeof(gshmemx_uniqueid::internal));

template <class Field, class Value>
void store(Field& field, Value value) {
  static_assert(sizeof(field) == sizeof(value));
  std::memcpy(&field, &value, sizeof(value));
}

}  // namespace

void encode_uniqueid(const UniqueId& id, gshmemx_uniqueid* packed) {
  Packed wire{};
  store(wire.magic, htobe32(kMagic));
  wire.family = static_cast<std::uint8_t>(id.root.family);
  store(wire.ip, id.root.ip);
  store(wire.port, htobe16(id.root.port));
  wire.cookie = id.cookie;
  *packed = {};
  packed->version = kUniqueIdVersion;
  std::memcpy(packed->internal, &wire, sizeof(wire));
}

std::optional<UniqueId> decode_uniqueid(const gshmemx_uniqueid& packed) {
  Packed wire;
  std::memcpy(&wire, packed.internal, sizeof(wire));
  UniqueId id;
  id.root.family = static_cast<net::Endpoint::Family>(wire.family);
  std::memcpy(id.root.ip.data(), wire.ip, sizeof(wire.ip));
  std::uint16_t port = 0;
  std::memcpy(&port, wire.port, sizeof(port));
  id.root.port = be16toh(port);
  id.cookie = wire.cookie;
  const bool good = (wire.family == 4 || wire.family == 6) && port != 0;
  gshmemx_uniqueid again;
  encode_uniqueid(id, &again);
  if (!good || std::memcmp(&again, &packed, sizeof(packed)) != 0) return std::nullopt;
  return id;
}

}  // namespace gshmem::bootstrap

#include "bootstrap/uid/id.h"

#include <catch2/catch.hpp>

#include <cstring>

using namespace gshmem;
using namespace gshmem::bootstrap;

namespace {

net::Cookie counting_cookie() {
  net::Cookie cookie;
  for (std::size_t i = 0; i < cookie.size(); ++i) cookie[i] = static_cast<std::byte>(i + 0x10);
  return cookie;
}

}  // namespace

TEST_CASE("uniqueid_decodes_to_what_was_encoded", "[uid]") {
  UniqueId id;
  id.cookie = counting_cookie();
  RootAddress v4, v6;
  v4.endpoint.port = 0xABCD;
  v4.endpoint.ip = {10, 1, 2, 3};
  v4.prefix_bits = 24;
  v6.endpoint.family = net::Endpoint::Family::kIpv6;
  v6.endpoint.ip = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  v6.endpoint.port = 7;
  v6.prefix_bits = 64;
  id.roots = {v4, v6};
  gshmemx_uniqueid packed;
  std::memset(&packed, 0x55, sizeof packed);
  encode_uniqueid(id, &packed);
  CHECK(packed.version == kUniqueIdVersion);
  CHECK(std::memcmp(packed.internal, "GUI2\x10\x11\x12", 7) == 0);
  CHECK(std::memcmp(packed.internal + 20, "\x04\x18\xAB\xCD\x0A\x01\x02\x03\x06\x40", 10) == 0);
  CHECK(decode_uniqueid(packed) == id);
  id.proved = true;
  encode_uniqueid(id, &packed);
  CHECK(std::memcmp(packed.internal, "GUI3\x10\x11\x12", 7) == 0);
  CHECK(decode_uniqueid(packed) == id);

  id.roots.assign(6, v6);  // there is room for five
  encode_uniqueid(id, &packed);
  id.roots.pop_back();
  CHECK(decode_uniqueid(packed) == id);
  id.roots.assign(13, v4);
  encode_uniqueid(id, &packed);
  CHECK(decode_uniqueid(packed) == id);
}

TEST_CASE("invalid_uniqueid_is_refused", "[uid]") {
  gshmemx_uniqueid good;
  UniqueId id;
  id.roots.resize(1);
  id.roots[0].endpoint.port = 1;
  encode_uniqueid(id, &good);
  REQUIRE(decode_uniqueid(good));

  CHECK_FALSE(decode_uniqueid(gshmemx_uniqueid{}));
  gshmemx_uniqueid bad = good;
  bad.version = 2;
  CHECK_FALSE(decode_uniqueid(bad));
  for (const std::size_t at : {0u, 20u, 60u, 123u}) {  // magic, family, padding
    bad = good;
    bad.internal[at] = static_cast<char>(bad.internal[at] ^ 0x70);
    CHECK_FALSE(decode_uniqueid(bad));
  }
  id.roots[0].endpoint.port = 0;
  encode_uniqueid(id, &bad);
  CHECK_FALSE(decode_uniqueid(bad));
}

#include "host/base/hmac.h"

#include <catch2/catch.hpp>

#include <string>

using namespace gshmem;

namespace {

std::string hmac(const std::string& key, const std::string& text) {
  std::string hex;
  for (const std::byte byte :
       hmac_sha256(std::as_bytes(std::span(key)), std::as_bytes(std::span(text)))) {
    constexpr const char* kDigits = "0123456789abcdef";
    hex += kDigits[std::to_integer<int>(byte) / 16];
    hex += kDigits[std::to_integer<int>(byte) % 16];
  }
  return hex;
}

}  // namespace

TEST_CASE("hmac_sha256_returns_the_values_of_rfc_4231") {
  // Sections 4.2, 4.3 and 4.7.
  CHECK(hmac(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hmac("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("digests_are_the_same_only_in_all_their_bytes") {
  const Digest digest{};
  Digest other{};
  CHECK(same_digest(digest, other));
  other[31] = std::byte{1};
  CHECK_FALSE(same_digest(digest, other));
  CHECK_FALSE(same_digest(digest, std::span(digest).first(31)));
}

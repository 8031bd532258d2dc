#include "host/base/sha256.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace gshmem;

namespace {

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<int>(byte) / 16];
    text += kDigits[std::to_integer<int>(byte) % 16];
  }
  return text;
}

std::string sha(const std::string& text) { return hex(sha256(std::as_bytes(std::span(text)))); }
std::string hmac(const std::string& key, const std::string& text) {
  return hex(hmac_sha256(std::as_bytes(std::span(key)), std::as_bytes(std::span(text))));
}

}  // namespace

TEST_CASE("sha256_and_its_hmac_return_the_values_of_the_standards") {
  // The values are those of FIPS 180-2, appendix B, and the digest of an empty text.
  CHECK(sha("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK(sha("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  // The values are those of RFC 4231, sections 4.2, 4.3 and 4.7.
  CHECK(hmac(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hmac("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  Digest digest = sha256({});
  CHECK(same_digest(digest, digest));
  digest[31] ^= std::byte{1};
  CHECK_FALSE(same_digest(digest, sha256({})));
  CHECK_FALSE(same_digest(digest, std::span(digest).first(31)));
}

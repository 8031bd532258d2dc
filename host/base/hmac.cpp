#include "host/base/hmac.h"

#include "host/base/dynamic_library.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace gshmem {
namespace {

struct Hash;  // EVP_MD, opaque

/// Functions of openssl/hmac.h and openssl/evp.h, whose types do not differ between versions 1.1
/// and 3.
struct Libcrypto {
  std::optional<DynamicLibrary> library;
  std::string why_not;
  const Hash* (*sha256)() = nullptr;
  unsigned char* (*hmac)(const Hash*, const void* key, int key_bytes, const unsigned char* message,
                         std::size_t bytes, unsigned char* digest,
                         unsigned* digest_bytes) = nullptr;
};

Libcrypto load() {
  Libcrypto crypto;
  std::string& tried = crypto.why_not;
  for (const char* const soname : {"libcrypto.so.3", "libcrypto.so.1.1"}) {
    try {
      DynamicLibrary library(soname);
      auto* const init = library.function<int(std::uint64_t, const void*)>("OPENSSL_init_crypto");
      crypto.sha256 = library.function<const Hash*()>("EVP_sha256");
      crypto.hmac =
          library.function<unsigned char*(const Hash*, const void*, int, const unsigned char*,
                                          std::size_t, unsigned char*, unsigned*)>("HMAC");
      // A root service may prove something while the process ends.
      constexpr std::uint64_t kNoAtexit = 0x00080000;  // OPENSSL_INIT_NO_ATEXIT
      (void)init(kNoAtexit, nullptr);
      unsigned char digest[32];
      unsigned bytes = 0;
      require(crypto.hmac(crypto.sha256(), "", 0, digest, 0, digest, &bytes) != nullptr,
              GSHMEMX_ERROR_NOT_SUPPORTED, std::string(soname) + " refuses HMAC-SHA256");
      crypto.library = std::move(library);
      return crypto;
    } catch (const Error& error) {
      tried += std::string(tried.empty() ? "" : ", ") + error.what();
    }
  }
  return crypto;
}

/// It stays loaded: the thread of a root service may outlive static objects.
const Libcrypto& libcrypto() {
  static const Libcrypto& loaded = *new Libcrypto(load());
  return loaded;
}

}  // namespace

bool has_libcrypto() { return libcrypto().library.has_value(); }

void require_libcrypto(const char* who) {
  require(has_libcrypto(), GSHMEMX_ERROR_NOT_SUPPORTED,
          std::string(who) + " needs OpenSSL's libcrypto: " + libcrypto().why_not +
              "; install it (package libssl3 or openssl-libs), or start the job by a launcher with "
              "PMIx, which needs no secret");
}

Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  require_libcrypto("the proof of a secret");
  const Libcrypto& crypto = libcrypto();
  Digest digest;
  unsigned bytes = 0;
  const auto* const done =
      crypto.hmac(crypto.sha256(), key.data(), static_cast<int>(key.size()),
                  reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                  reinterpret_cast<unsigned char*>(digest.data()), &bytes);
  require(done != nullptr && bytes == digest.size(), GSHMEMX_ERROR_NOT_SUPPORTED,
          "libcrypto refuses HMAC-SHA256 with the key of this job");
  return digest;
}

bool same_digest(const Digest& a, std::span<const std::byte> b) {
  if (b.size() != a.size()) return false;
  std::byte differs{0};
  for (std::size_t i = 0; i < a.size(); ++i) differs |= a[i] ^ b[i];
  return differs == std::byte{0};
}

}  // namespace gshmem

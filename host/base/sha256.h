// SHA-256 and HMAC-SHA256 (FIPS 180-4, FIPS 198-1). With them the two sides of a connection prove
// that they know the same secret. Included by the code that greets over a network. It does not use
// libcrypto: every job with a unique id needs it, and small container images have none. Pure;
// tested with the standards' vectors.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace gshmem {

using Digest = std::array<std::byte, 32>;

[[nodiscard]] Digest sha256(std::span<const std::byte> message);
[[nodiscard]] Digest hmac_sha256(std::span<const std::byte> key,
                                 std::span<const std::byte> message);
/// Takes the same time wherever the two differ, so an attacker learns nothing from the time.
[[nodiscard]] bool same_digest(const Digest& a, std::span<const std::byte> b);

}  // namespace gshmem

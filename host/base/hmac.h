// HMAC-SHA256 by libcrypto, which is loaded by the first call. With it the two sides of a
// connection prove that they know the same secret. Included by the code that greets over a network.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace gshmem {

using Digest = std::array<std::byte, 32>;

/// Errors: GSHMEMX_ERROR_NOT_SUPPORTED, if libcrypto cannot be loaded.
[[nodiscard]] Digest hmac_sha256(std::span<const std::byte> key,
                                 std::span<const std::byte> message);
/// Loads libcrypto, so that no later call of hmac_sha256 finds it missing; `who` needs it. Errors:
/// as above.
void require_libcrypto(const char* who);
/// Returns false if libcrypto cannot be loaded.
[[nodiscard]] bool has_libcrypto();
/// Compares two digests. The time does not depend on where they differ, so an attacker learns
/// nothing from it.
[[nodiscard]] bool same_digest(const Digest& a, std::span<const std::byte> b);

}  // namespace gshmem

// How the two sides of a new connection prove to each other that they know the same secret, which
// does not cross the network: each sends a nonce and answers that of the other by an HMAC over
// both. The one that was called proves itself first, so that a stranger in its place learns
// nothing. Included by both sides. Pure. What follows the greeting is neither encrypted nor
// authenticated (docs/security.md).
#pragma once

#include "host/base/net/frame.h"
#include "host/base/net/socket.h"
#include "host/base/sha256.h"

#include <string_view>

namespace gshmem::net {

enum class Side : char { kCalled = 'c', kCaller = 'r' };

/// That `side` knows `secret`, for this greeting alone: `hello` has the caller's nonce, `nonce` is
/// that of the one that was called.
[[nodiscard]] inline Digest proof_of(Side side, std::string_view secret, const Frame& hello,
                                     const Cookie& nonce) {
  Bytes text{static_cast<std::byte>(side)};
  text.insert(text.end(), nonce.begin(), nonce.end());
  text.insert(text.end(), hello->begin(), hello->end());
  return hmac_sha256(std::as_bytes(std::span(secret)), text);
}

[[nodiscard]] inline Frame challenge_to(const Frame& hello, std::string_view secret,
                                        const Cookie& nonce) {
  const Digest proof = proof_of(Side::kCalled, secret, hello, nonce);
  Bytes payload(nonce.begin(), nonce.end());
  payload.insert(payload.end(), proof.begin(), proof.end());
  return make_frame({.kind = FrameKind::kChallenge}, payload);
}

/// The caller's answer to a challenge; null when that is of one that does not know the secret.
[[nodiscard]] inline Frame answer_to(const Frame& challenge, const Frame& hello,
                                     std::string_view secret) {
  const ByteView payload = payload_of(challenge);
  Cookie nonce;
  std::copy_n(payload.begin(), nonce.size(), nonce.begin());
  if (!same_digest(proof_of(Side::kCalled, secret, hello, nonce), payload.subspan(nonce.size())))
    return nullptr;
  return make_frame({.kind = FrameKind::kProof}, proof_of(Side::kCaller, secret, hello, nonce));
}

}  // namespace gshmem::net

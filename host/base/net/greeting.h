// Lets the two sides of a new connection prove to each other that they know the same secret,
// without sending it. Each side sends a nonce and answers the other's nonce by an HMAC over both.
// The called side proves itself first, so that a stranger in its place learns nothing. Included by
// both sides. Pure. Data after the greeting is neither encrypted nor authenticated
// (docs/security.md).
#pragma once

#include "host/base/net/frame.h"
#include "host/base/net/socket.h"
#include "host/base/sha256.h"

#include <string_view>

namespace gshmem::net {

enum class Side : char { kCalled = 'c', kCaller = 'r' };

/// The proof that `side` knows `secret`, valid for this greeting only. `hello` has the caller's
/// nonce; `nonce` is that of the called side.
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

/// Returns the caller's answer to a challenge; null when the challenger does not know the secret.
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

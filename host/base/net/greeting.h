// Lets the two sides of a new connection prove to each other that they know the same secret. Each
// side sends a nonce and answers the other's nonce by an HMAC over both, so the secret is not sent.
// If a unique id was made without libcrypto, each side sends its half of the secret instead. The
// called side proves itself first, so that a stranger in its place does not get the caller's proof.
// Included by both sides. Data after the greeting is neither encrypted nor authenticated
// (docs/security.md).
#pragma once

#include "host/base/hmac.h"
#include "host/base/net/frame.h"
#include "host/base/net/socket.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace gshmem::net {

struct Secret {
  std::string text;
  /// Is half of the text the proof? It needs no libcrypto, which small container images lack.
  bool shown = false;
  friend bool operator==(const Secret&, const Secret&) = default;
};

enum class Side : char { kCalled = 'c', kCaller = 'r' };

/// Returns the proof that `side` knows `secret`. `hello` has the caller's nonce; `nonce` is that of
/// the called side.
[[nodiscard]] inline Digest proof_of(Side side, const Secret& secret, const Frame& hello,
                                     const Cookie& nonce) {
  if (secret.shown) {
    const ByteView word = std::as_bytes(std::span(secret.text));
    const std::size_t half = std::min(word.size() / 2, std::tuple_size_v<Digest>);
    Digest shown{};
    std::ranges::copy(side == Side::kCalled ? word.first(half) : word.last(half), shown.begin());
    return shown;
  }
  Bytes text{static_cast<std::byte>(side)};
  text.insert(text.end(), nonce.begin(), nonce.end());
  text.insert(text.end(), hello->begin(), hello->end());
  return hmac_sha256(std::as_bytes(std::span(secret.text)), text);
}

[[nodiscard]] inline Frame challenge_to(const Frame& hello, const Secret& secret,
                                        const Cookie& nonce) {
  const Digest proof = proof_of(Side::kCalled, secret, hello, nonce);
  Bytes payload(nonce.begin(), nonce.end());
  payload.insert(payload.end(), proof.begin(), proof.end());
  return make_frame({.kind = FrameKind::kChallenge}, payload);
}

/// Returns the caller's answer to a challenge; null when the challenger does not know the secret.
[[nodiscard]] inline Frame answer_to(const Frame& challenge, const Frame& hello,
                                     const Secret& secret) {
  const ByteView payload = payload_of(challenge);
  Cookie nonce;
  std::copy_n(payload.begin(), nonce.size(), nonce.begin());
  if (!same_digest(proof_of(Side::kCalled, secret, hello, nonce), payload.subspan(nonce.size())))
    return nullptr;
  return make_frame({.kind = FrameKind::kProof}, proof_of(Side::kCaller, secret, hello, nonce));
}

}  // namespace gshmem::net

#include "transport/hosts/relay_board.h"

#include "host/base/error.h"

#include <algorithm>
#include <chrono>

namespace gshmem::hosts {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLook{10};  // between looks at stopped(), which wakes nobody
constexpr std::chrono::milliseconds kVerdict{2000};  // for the root to say who is missing

bool is_of(const Frame& frame, std::uint64_t sequence) {
  return frame && header_of(frame).sequence == sequence;
}

}  // namespace

void RelayBoard::deliver(const Frame& frame) {
  {
    const std::lock_guard lock(mutex_);
    (header_of(frame).kind == FrameKind::kResult ? result_ : missing_) = frame;
  }
  changed_.notify_all();
}

/// `bytes` of every PE, to places of `recv` that are `step` apart.
void RelayBoard::copy_result(char* recv, std::size_t bytes, std::size_t step) const {
  const std::size_t width = header_of(result_).detail, n = static_cast<std::size_t>(n_pes_);
  const std::span<const char> data = payload_of(result_);
  require(data.size() == width * n, GSHMEMX_ERROR_INTERNAL, "board: result of a wrong size");
  for (std::size_t pe = 0; pe < n && bytes > 0; ++pe, recv += step) {
    const std::size_t here = std::min(bytes, width);
    std::memcpy(recv, data.data() + pe * width, here);
    std::memset(recv + here, 0, bytes - here);
  }
}

void RelayBoard::throw_timeout(double timeout_seconds) const {
  if (is_of(missing_, sequence_)) {
    throw Error(GSHMEMX_ERROR_TIMEOUT, strprintf("PE %d did not reach a host barrier within %.3g s",
                                                 header_of(missing_).pe, timeout_seconds));
  }
  throw Error(
      GSHMEMX_ERROR_TIMEOUT,
      strprintf("not all PEs reached a host barrier within %.3g s, and PE 0, which knows who "
                "is missing, does not answer",
                timeout_seconds));
}

void RelayBoard::allgather(const void* send, void* recv, std::size_t bytes,
                           double timeout_seconds) {
  std::size_t at = 0;
  do {
    const std::size_t piece = std::min(kPieceBytes, bytes - at);
    await_result({static_cast<const char*>(send) + at, piece}, timeout_seconds);
    const std::lock_guard lock(mutex_);
    copy_result(static_cast<char*>(recv) + at, piece, bytes);
    at += piece;
  } while (at < bytes);
}

/// Brings `mine` to the next collective; its result is there afterwards.
void RelayBoard::await_result(std::span<const char> mine, double timeout_seconds) {
  ++sequence_;
  channel_.contribute(sequence_, mine);
  const bool limited = timeout_seconds > 0 && timeout_seconds < 1e8;
  auto deadline = limited ? Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                               std::chrono::duration<double>(timeout_seconds))
                          : Clock::time_point::max();
  bool asked = false;
  std::unique_lock lock(mutex_);
  for (;;) {
    // Before stopped(): the PE that stopped us may have had the result.
    if (is_of(result_, sequence_)) return;
    if (stopped_()) {
      throw Error(GSHMEMX_ERROR_PEER_FAILED,
                  "stopped while waiting for PEs of other hosts in a host barrier");
    }
    const auto now = Clock::now();
    if (asked && (now >= deadline || is_of(missing_, sequence_))) throw_timeout(timeout_seconds);
    if (now >= deadline) {
      asked = true;
      deadline = now + kVerdict;
      channel_.expired(sequence_);
    }
    changed_.wait_until(lock, std::min(deadline, now + kLook));
  }
}

}  // namespace gshmem::hosts

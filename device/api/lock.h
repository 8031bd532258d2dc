// Locks (OpenSHMEM 1.5, section 9.11), as ticket locks. The copy of one PE counts, which is chosen
// by the offset of the lock in the heap. It holds the current ticket and the next one, 4 bytes
// each, so that a lock of zeros is free. A thread that sets the lock takes the next ticket and
// waits until it is the current one: first come, first served.
#pragma once

#include "api.h"

namespace gshmem::api {

struct LockWords {
  std::uint32_t *turn, *next;
  int pe;
};

/// Returns the words of a lock, and their PE. Consecutive locks are on different PEs.
GSHMEM_FN LockWords lock_words(const State& state, long* lock) {
  auto* const words = reinterpret_cast<std::uint32_t*>(lock);
  const auto offset = static_cast<std::uint64_t>(reinterpret_cast<char*>(lock) - state.heap);
  const std::uint64_t n = static_cast<std::uint64_t>(state.n_pes);
  return {words, words + 1, static_cast<int>(offset / sizeof(long) % n)};
}

/// Are all atomics on the lock executed on one path? If mapped PEs changed it in place and others
/// by the network, updates would be lost.
GSHMEM_FN bool lock_is_atomic([[maybe_unused]] const Caller& call) {
  bool mixed = call.state.amo_path == abi::AmoPath::kInPlace && call.state.nic.queues != nullptr;
#if !defined(__CUDA_ARCH__)
  mixed = mixed && gshmemi_ambient()->ops != nullptr;  // in CPU mode they are the same instructions
#endif
  if (mixed && is_mapped(call.state, call.state.my_pe))
    fault(call.state, {GSHMEMX_ERROR_NOT_SUPPORTED, call.name, "lock"});
  return !mixed || !is_mapped(call.state, call.state.my_pe);
}

GSHMEM_FN bool check_lock(const Caller& call, long* lock) {
  return check_arguments(call.state, call.name, word("lock", lock)) && lock_is_atomic(call);
}

GSHMEM_FN void set_lock(const Caller& call, long* lock) {
  if (!check_lock(call, lock)) return;
  const LockWords words = lock_words(call.state, lock);
  const std::uint32_t mine = amo_fetch_add(call, words.next, 1u, words.pe);
  spin_until(call.state, call.name, [&] { return amo_fetch(call, words.turn, words.pe) == mine; });
  push_inbound(call.state);
  fence_acquire_system();
}

/// Returns 0 when it has set the lock. The current ticket that was read is still current if it
/// equals the next ticket: it never passes that.
GSHMEM_FN int test_lock(const Caller& call, long* lock) {
  if (!check_lock(call, lock)) return 1;
  const LockWords words = lock_words(call.state, lock);
  const std::uint32_t turn = amo_fetch(call, words.turn, words.pe);
  if (amo_compare_swap(call, words.next, turn, turn + 1, words.pe) != turn) return 1;
  push_inbound(call.state);
  fence_acquire_system();
  return 0;
}

GSHMEM_FN void clear_lock(const Caller& call, long* lock) {
  if (!check_lock(call, lock)) return;
  const LockWords words = lock_words(call.state, lock);
  if (kChecks && amo_fetch(call, words.turn, words.pe) == amo_fetch(call, words.next, words.pe))
    return (void)bad_argument(call.state, call.name, "lock", abi::Rule::kHeld, as_value(lock));
  quiet(call);
  amo_add(call, words.turn, 1u, words.pe);
}

}  // namespace gshmem::api

// Signals (OpenSHMEM 1.5, section 9.8): a 64-bit word that is set or added to at the target, alone
// or after a payload. Invariant: a signal is never visible before the payload it belongs to.
#pragma once

#include "amo.h"
#include "../core/coop.h"
#include "../network/inbound.h"
#include "rma.h"
#include "../core/wait.h"

#include <type_traits>

namespace gshmem::device {

/// The change that put_signal makes to the signal word.
struct SignalUpdate {
  std::uint64_t* address;
  std::uint64_t value;
  int op;  ///< either GSHMEM_SIGNAL_SET or _ADD
};

/// The update is atomic against waits, and other signal updates that take the same path
/// (abi::AmoPath). It is not ordered after earlier puts (use fence, or put_signal). A SET reads
/// nothing, so a store is enough.
GSHMEM_FN void signal_op(const State& state, SignalUpdate signal, int pe) {
  if (signal.op == GSHMEM_SIGNAL_SET && set_is_mapped(state, pe)) {
    store_flag(peer_address(state, signal.address, pe), signal.value);
  } else if (signal.op == GSHMEM_SIGNAL_SET) {
    amo_set(state, signal.address, signal.value, pe);
  } else {
    amo_add(state, signal.address, signal.value, pe);
  }
}

/// A signal that is sent later, and its PE.
struct PendingSignal {
  SignalUpdate update;
  int pe;
};

/// The group synchronizes after the payload. Then one thread orders the payload before the signal:
/// its fence covers the stores of threads with which it has synchronized (PTX ISA, causality
/// order). It is out of line, and the signal is in memory while the group copies. Otherwise all of
/// this would take registers of every kernel that might call it (tests/device/registers).
template <class Coop>
GSHMEM_OUTLINE void group_put_signal(Coop coop, const State& state, void* dest, const void* source,
                                     std::size_t bytes, SignalUpdate signal, int pe) {
  PendingSignal pending{signal, pe};
  keep_in_memory(pending);
  coop.sync();
  copy<Source::kLocal>(coop, peer_address(state, dest, pe), source, bytes);
  coop.sync();
  if (coop.thread_rank() == 0) {
    fence_release_system();
    signal_op(state, pending.update, pending.pe);
  }
  coop.sync();
}

template <class Coop>
GSHMEM_FN void put_signal_as(Coop coop, const State& state, void* dest, const void* source,
                             std::size_t bytes, SignalUpdate signal, int pe, nic::Reuse reuse) {
  if (!is_mapped(state, pe)) {
    const AmoOp op = signal.op == GSHMEM_SIGNAL_SET ? AmoOp::kSet : AmoOp::kAdd;
    nic::put_signal(coop, state, dest, source, bytes, {signal.address, signal.value, op}, pe,
                    reuse);
  } else if constexpr (std::is_same_v<Coop, Thread>) {
    copy<Source::kLocal>(coop, peer_address(state, dest, pe), source, bytes);
    fence_release_system();
    signal_op(state, signal, pe);
  } else {
    group_put_signal(coop, state, dest, source, bytes, signal, pe);
  }
}

template <class Coop>
GSHMEM_FN void put_signal_nbi(Coop coop, const State& state, void* dest, const void* source,
                              std::size_t bytes, SignalUpdate signal, int pe) {
  put_signal_as(coop, state, dest, source, bytes, signal, pe, nic::Reuse::kAtQuiet);
}
template <class Coop>
GSHMEM_FN void put_signal(Coop coop, const State& state, void* dest, const void* source,
                          std::size_t bytes, SignalUpdate signal, int pe) {
  put_signal_as(coop, state, dest, source, bytes, signal, pe, nic::Reuse::kOnReturn);
}

GSHMEM_FN std::uint64_t signal_fetch(const std::uint64_t* sig_addr) { return load_sync(sig_addr); }

/// Returns the value that satisfied the comparison; the payload ordered before it is visible.
GSHMEM_FN std::uint64_t signal_wait_until(const State& state, const char* call,
                                          const std::uint64_t* sig_addr, int cmp,
                                          std::uint64_t cmp_value) {
  std::uint64_t value = 0;
  const auto came = [&] {
    value = poll_sync(sig_addr);
    return compare(value, cmp, cmp_value);
  };
  spin_on_word(state, call, came, sig_addr, cmp, cmp_value);
  GSHMEM_ORDER(checker->acquire(sig_addr);)
  push_inbound(state);
  fence_acquire_system();
  return value;
}

}  // namespace gshmem::device

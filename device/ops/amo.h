// Atomic memory operations (OpenSHMEM 1.5, section 9.7), executed at system scope or by the NIC.
// They are relaxed, and atomic against every other AMO, signal and wait on the same object that
// takes the same path (abi::AmoPath), but not against `p` and puts. T is 4 or 8 bytes. Signedness
// does not matter to any of them, so they work on unsigned words.
#pragma once

#include "../network/network_path.h"
#include "../pe/p2p.h"

namespace gshmem::device {

template <class T>
GSHMEM_FN Word<T>* amo_target(const State& state, const T* dest, int pe) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return reinterpret_cast<Word<T>*>(peer_address(state, const_cast<T*>(dest), pe));
}

/// Makes the atomic for a NIC.
template <class T>
GSHMEM_FN Amo nic_amo(AmoOp op, T operand, T cond) {
  return {op, sizeof(T), bits<Word<T>>(operand), bits<Word<T>>(cond)};
}
template <class T>
GSHMEM_FN T nic_fetching(AmoOp op, const State& state, const T* dest, T operand, T cond, int pe) {
  return bits<T>(static_cast<Word<T>>(
      nic::amo_fetching(state, const_cast<T*>(dest), nic_amo(op, operand, cond), pe)));
}

/// Fetches a word. Threads may poll by it: a thread that acquires afterwards (fence_acquire_system)
/// sees all stores that were ordered before the value.
template <class T>
GSHMEM_FN T amo_fetch(const State& state, const T* source, int pe) {
  if (!amo_is_mapped(state, pe)) {
    return nic_fetching(AmoOp::kFetch, state, source, T{}, T{}, pe);
  }
  return bits<T>(load_poll(amo_target(state, source, pe)));
}

template <class T>
GSHMEM_FN void amo_set(const State& state, T* dest, T value, int pe) {
  if (!amo_is_mapped(state, pe)) {
    return nic::amo(state, dest, nic_amo(AmoOp::kSet, value, T{}), pe);
  }
  store_flag(amo_target(state, dest, pe), bits<Word<T>>(value));
}

template <class T>
GSHMEM_FN T amo_swap(const State& state, T* dest, T value, int pe) {
  if (!amo_is_mapped(state, pe)) {
    return nic_fetching(AmoOp::kSwap, state, dest, value, T{}, pe);
  }
  return bits<T>(atomic_exchange(amo_target(state, dest, pe), bits<Word<T>>(value)));
}

template <class T>
GSHMEM_FN T amo_compare_swap(const State& state, T* dest, T cond, T value, int pe) {
  if (!amo_is_mapped(state, pe)) {
    return nic_fetching(AmoOp::kCompareSwap, state, dest, value, cond, pe);
  }
  return bits<T>(
      atomic_compare_swap(amo_target(state, dest, pe), bits<Word<T>>(cond), bits<Word<T>>(value)));
}

#define GSHMEM_AMO(OP, NIC_OP)                                                            \
  template <class T>                                                                      \
  GSHMEM_FN T amo_fetch_##OP(const State& state, T* dest, T value, int pe) {              \
    if (!amo_is_mapped(state, pe)) {                                                      \
      return nic_fetching(AmoOp::NIC_OP, state, dest, value, T{}, pe);                    \
    }                                                                                     \
    return bits<T>(atomic_fetch_##OP(amo_target(state, dest, pe), bits<Word<T>>(value))); \
  }                                                                                       \
  template <class T>                                                                      \
  GSHMEM_FN void amo_##OP(const State& state, T* dest, T value, int pe) {                 \
    if (!amo_is_mapped(state, pe)) {                                                      \
      return nic::amo(state, dest, nic_amo(AmoOp::NIC_OP, value, T{}), pe);               \
    }                                                                                     \
    atomic_##OP(amo_target(state, dest, pe), bits<Word<T>>(value));                       \
  }
GSHMEM_AMO(add, kAdd)
GSHMEM_AMO(and, kAnd)
GSHMEM_AMO(or, kOr)
GSHMEM_AMO(xor, kXor)
#undef GSHMEM_AMO

}  // namespace gshmem::device

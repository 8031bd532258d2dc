// Atomic memory operations on the load/store path (OpenSHMEM 1.5, section 9.7): relaxed, at system
// scope, atomic against every other AMO, `p`, signal and wait on the same object. T is 4 or 8
// bytes. Signedness does not matter to any of them, so they work on unsigned words.
#pragma once

#include "p2p.h"

namespace gshmem::device {

template <class T>
GSHMEM_FN Word<T>* amo_target(const State& state, const T* dest, int pe) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return reinterpret_cast<Word<T>*>(peer_address(state, const_cast<T*>(dest), pe));
}

template <class T>
GSHMEM_FN T amo_fetch(const State& state, const T* source, int pe) {
  return bits<T>(load_relaxed(amo_target(state, source, pe)));
}

template <class T>
GSHMEM_FN void amo_set(const State& state, T* dest, T value, int pe) {
  store_flag(amo_target(state, dest, pe), bits<Word<T>>(value));
}

template <class T>
GSHMEM_FN T amo_swap(const State& state, T* dest, T value, int pe) {
  return bits<T>(atomic_exchange(amo_target(state, dest, pe), bits<Word<T>>(value)));
}

template <class T>
GSHMEM_FN T amo_compare_swap(const State& state, T* dest, T cond, T value, int pe) {
  return bits<T>(
      atomic_compare_swap(amo_target(state, dest, pe), bits<Word<T>>(cond), bits<Word<T>>(value)));
}

#define GSHMEM_AMO(OP)                                                                    \
  template <class T>                                                                      \
  GSHMEM_FN T amo_fetch_##OP(const State& state, T* dest, T value, int pe) {              \
    return bits<T>(atomic_fetch_##OP(amo_target(state, dest, pe), bits<Word<T>>(value))); \
  }                                                                                       \
  template <class T>                                                                      \
  GSHMEM_FN void amo_##OP(const State& state, T* dest, T value, int pe) {                 \
    atomic_##OP(amo_target(state, dest, pe), bits<Word<T>>(value));                       \
  }
GSHMEM_AMO(add)
GSHMEM_AMO(and)
GSHMEM_AMO(or)
GSHMEM_AMO(xor)
#undef GSHMEM_AMO

}  // namespace gshmem::device

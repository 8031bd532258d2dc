// Calls of the API as the order checker has them (device/core/order_check.h). Included by
// device/api/api.h, whose functions return at once where one of these is true: the checker has
// carried it out, or will. False: the PE is not mapped. Empty without ThreadSanitizer.
#pragma once

#include "../core/order_check.h"
#include "../ops/signal.h"
#include "../pe/p2p.h"

#if defined(GSHMEM_ORDER_ON)
namespace gshmem::device::order {

inline AmoOp amo_of(const SignalUpdate& signal) {
  return signal.op == GSHMEM_SIGNAL_SET ? AmoOp::kSet : AmoOp::kAdd;
}

/// The first thread of a group works, whose threads synchronize before and after it.
template <class Coop, class Work>
inline void by_group(Coop coop, const Work& work) {
  coop.sync();
  if (coop.thread_rank() == 0) work();
  coop.sync();
}

template <class Coop>
inline bool put(Checker& checker, Coop coop, Transfer t, const SignalUpdate* signal = nullptr) {
  const State& state = *t.state;
  if (!is_mapped(state, t.pe)) return false;
  t.dest = peer_address(state, t.dest, t.pe);
  if (signal) {
    t.signal = peer_address(state, signal->address, t.pe);
    t.signal_value = signal->value;
    t.signal_op = amo_of(*signal);
  }
  by_group(coop, [&] { checker.put(t); });
  return true;
}
template <class Coop>
inline bool get(Checker& checker, Coop coop, Transfer t) {
  if (!is_mapped(*t.state, t.pe)) return false;
  t.source = peer_address(*t.state, t.source, t.pe);
  by_group(coop, [&] { checker.get(t); });
  return true;
}
template <class T>
inline bool get_element(Checker& checker, const State& state, const T* source, T& value, int pe) {
  return get(checker, Thread{},
             {.state = &state,
              .pe = pe,
              .dest = reinterpret_cast<char*>(&value),
              .source = reinterpret_cast<const char*>(source),
              .bytes = sizeof(T),
              .blocking = true});
}
/// A plain one.
inline Transfer transfer(const State& state, void* dest, const void* source, std::size_t bytes,
                         int pe, bool blocking) {
  return {.state = &state,
          .pe = pe,
          .dest = static_cast<char*>(dest),
          .source = static_cast<const char*>(source),
          .bytes = bytes,
          .blocking = blocking};
}
inline Transfer strided(const State& state, void* dest, const void* source, std::size_t size,
                        const Strides& strides, int pe) {
  const auto step = static_cast<std::ptrdiff_t>(size);
  Transfer t = transfer(state, dest, source, size, pe, true);
  t.count = strides.nelems;
  t.dest_stride = strides.dst * step;
  t.source_stride = strides.src * step;
  return t;
}
/// An atomic that fetches nothing.
template <class T>
inline bool update(Checker& checker, const State& state, AmoOp op, T* dest, T value, int pe) {
  if (!amo_is_mapped(state, pe)) return false;
  checker.update({&state, pe, peer_address(state, dest, pe), sizeof(T), op, bits<Word<T>>(value)});
  return true;
}
inline bool update(Checker& checker, const State& state, const SignalUpdate& signal, int pe) {
  return update(checker, state, amo_of(signal), signal.address, signal.value, pe);
}
template <class T>
inline bool land(Checker& checker, const State& state, T* fetch, const T& value, int pe) {
  if (!amo_is_mapped(state, pe)) return false;
  checker.land(transfer(state, fetch, &value, sizeof(T), pe, true));
  return true;
}

}  // namespace gshmem::device::order
#endif

// Calls of the API in the form that the order checkers take (device/core/order_check.h). Included
// by device/api/api.h, whose functions return at once if one of these returns true: then the
// checker has executed the call, or will execute it. They return false if the PE is not mapped, or
// if the calls are only recorded. Empty without a checker.
#pragma once

#include "../core/order_check.h"
#include "../ops/signal.h"
#include "../pe/p2p.h"

// GSHMEM_ORDER_CALL(code): `code` runs with `checker` in a function of the API whose caller is
// `call`. GSHMEM_WATCH(code): `code` runs with `watch`, only where calls are recorded.
#if defined(GSHMEM_WATCH_ON)
#include "order_watch.h"
#define GSHMEM_WATCH(...)                                                                      \
  if (const ::gshmem::device::order::Watch watch(call, call.state); watch.shadow != nullptr) { \
    __VA_ARGS__                                                                                \
  }
#define GSHMEM_ORDER_CALL(...)                                                               \
  GSHMEM_WATCH([[maybe_unused]] const ::gshmem::device::order::Watched at{watch};            \
               [[maybe_unused]] const ::gshmem::device::order::Watched* const checker = &at; \
               __VA_ARGS__)
#else
#define GSHMEM_WATCH(...)
#define GSHMEM_ORDER_CALL(...) GSHMEM_ORDER(__VA_ARGS__)
#endif

#if defined(GSHMEM_ORDER_ON) || defined(GSHMEM_WATCH_ON)
namespace gshmem::device::order {

/// Runs `work` on the first thread of a group. The threads synchronize before and after it.
template <class Coop, class Work>
GSHMEM_FN void by_group(Coop coop, const Work& work) {
  coop.sync();
  if (coop.thread_rank() == 0) work();
  coop.sync();
}
/// Makes a Transfer without strides.
GSHMEM_FN Transfer transfer(const State& state, void* dest, const void* source, std::size_t bytes,
                            int pe, bool blocking) {
  Transfer t{&state, pe, static_cast<char*>(dest), static_cast<const char*>(source), bytes};
  t.blocking = blocking;
  return t;
}
GSHMEM_FN Transfer strided(const State& state, void* dest, const void* source, std::size_t size,
                           const Strides& strides, int pe) {
  const auto step = static_cast<std::ptrdiff_t>(size);
  Transfer t = transfer(state, dest, source, size, pe, true);
  t.count = strides.nelems;
  t.dest_stride = strides.dst * step;
  t.source_stride = strides.src * step;
  return t;
}

}  // namespace gshmem::device::order
#endif

#if defined(GSHMEM_WATCH_ON)
namespace gshmem::device::order {

/// Passes the calls of a function of the API to its Watch.
struct Watched {
  const Watch& watch;
  GSHMEM_FN void fence(const State&) const { order::fence(watch); }
  GSHMEM_FN void quiet(const State& state, int pe) const {
    order::quiet(&state == &watch.state ? watch : Watch(watch.call, state), pe);
  }
};

template <class Coop>
GSHMEM_FN bool put(const Watched& of, Coop coop, const Transfer& t,
                   const SignalUpdate* signal = nullptr) {
  by_group(coop, [&] {
    const Use use{{as_value(t.source), t.bytes, t.count, t.source_stride},
                  {as_value(t.dest), t.bytes, t.count, t.dest_stride},
                  t.pe,
                  signal ? OrderKind::kPutSignal : OrderKind::kPut};
    look(of.watch, use);
    if (signal) {
      look_at_signal(of.watch, t.pe);
      tell_word(of.watch, signal->address, t.pe, signal->op == GSHMEM_SIGNAL_ADD);
      tell_payload(of.watch, t, signal->address);
    }
    note(of.watch, use, !t.blocking);
  });
  return false;
}
template <class Coop>
GSHMEM_FN bool get(const Watched& of, Coop coop, const Transfer& t) {
  by_group(coop, [&] {
    const Use use{{as_value(t.dest), t.bytes, t.count, t.dest_stride},
                  {as_value(t.source), t.bytes, t.count, t.source_stride},
                  t.pe,
                  OrderKind::kGet,
                  false};
    look(of.watch, use);
    if (!t.blocking) note(of.watch, use, true);
  });
  return false;
}
template <class T>
GSHMEM_FN bool get_element(const Watched& of, const State& state, const T* source, T& value,
                           int pe) {
  return get(of, Thread{}, transfer(state, &value, source, sizeof(T), pe, true));
}
template <class T>
GSHMEM_FN bool update(const Watched& of, const State&, AmoOp op, T* dest, T, int pe) {
  const Use use{{}, range_of(dest, sizeof(T)), pe, OrderKind::kUpdate, true, true};
  look(of.watch, use);
  tell_word(of.watch, dest, pe, op == AmoOp::kAdd);
  note(of.watch, use, false);
  return false;
}
GSHMEM_FN bool update(const Watched& of, const State& state, const SignalUpdate& signal, int pe) {
  look_at_signal(of.watch, pe);
  return update(of, state, signal.op == GSHMEM_SIGNAL_SET ? AmoOp::kSet : AmoOp::kAdd,
                signal.address, signal.value, pe);
}
/// An atomic that fetches is complete on return, and orders what comes after it.
template <class T>
GSHMEM_FN void fetch(const Watched& of, const State&, AmoOp op, const T* word, int pe) {
  look(of.watch,
       {{}, range_of(word, sizeof(T)), pe, OrderKind::kUpdate, op != AmoOp::kFetch, true});
  if (op == AmoOp::kAdd) tell_word(of.watch, word, pe, true);
  acquire(of.watch);
}
/// The result of the atomic is in `fetch` after quiet.
template <class T>
GSHMEM_FN bool land(const Watched& of, const State&, T* fetch, const T&, int pe) {
  const Use use{range_of(fetch, sizeof(T)), {}, pe, OrderKind::kFetch, false};
  look(of.watch, use);
  note(of.watch, use, true);
  return false;
}
/// A barrier or sync of all PEs.
template <class Coop>
GSHMEM_FN void enter(const Watch& watch, Coop coop) {
  by_group(coop, [&] { (void)atomic_fetch_add(&watch.shadow->barriers, 1u); });
}
template <class Coop>
GSHMEM_FN void leave(const Watch& watch, Coop coop, bool is_of_all) {
  by_group(coop, [&] { acquire(watch, 0, is_of_all); });
}
/// A collective uses memory of this PE at once, and orders the members.
template <class Coop>
GSHMEM_FN void collective(const Watch& watch, Coop coop, const void* dest, std::size_t written,
                          const void* source, std::size_t read) {
  by_group(coop, [&] {
    look(watch, {range_of(source, read), {}, -1, OrderKind::kPut, false});
    look(watch, {range_of(dest, written), {}, -1, OrderKind::kGet, false});
    acquire(watch);
  });
}

}  // namespace gshmem::device::order
#endif

#if defined(GSHMEM_ORDER_ON)
namespace gshmem::device::order {

inline AmoOp amo_of(const SignalUpdate& signal) {
  return signal.op == GSHMEM_SIGNAL_SET ? AmoOp::kSet : AmoOp::kAdd;
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
inline void fetch(Checker& checker, const State& state, AmoOp, const T*, int pe) {
  checker.before_fetch(state, pe);
}
template <class T>
inline bool land(Checker& checker, const State& state, T* fetch, const T& value, int pe) {
  if (!amo_is_mapped(state, pe)) return false;
  checker.land(transfer(state, fetch, &value, sizeof(T), pe, true));
  return true;
}

}  // namespace gshmem::device::order
#endif

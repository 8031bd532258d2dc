// The layer between the APIs (C and C++) and the device library: it checks arguments, and on hosts
// whose heaps are on GPUs passes calls to HostOps. There is one function per operation, untyped if
// the type does not matter. include/gshmem/functions.def lists which API function calls which of
// these.
#pragma once

#include "../ops/amo.h"
#include "api_collective.h"
#include "api_wait.h"
#include "order_calls.h"
#include "../pe/caller.h"
#include "../pe/check.h"
#include "../ops/order.h"
#include "../ops/rma.h"
#include "../ops/signal.h"
#include "../core/state.h"
#include "../ops/sync.h"
#include "../pe/team.h"

namespace gshmem::api {

// --- RMA -----------------------------------------------------------------------------------------
enum class Completion { kBlocking, kNonBlocking };

template <Completion kCompletion, class Coop>
GSHMEM_FN void put_as(const Caller& call, Coop coop, void* dest, const void* source, Elements n,
                      int pe) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{pe}, Symmetric{{"dest", dest, n}},
                       Local{{"source", source, n}}))
    return;
  GSHMEM_BY_HOST_OPS(void, Call::transfer(CallKind::kPut, call.name, dest, source, n.bytes(), pe,
                                          kCompletion == Completion::kBlocking))
  GSHMEM_ORDER_CALL(auto t = order::transfer(state, dest, source, n.bytes(), pe,
                                             kCompletion == Completion::kBlocking);
                    if (order::put(*checker, coop, t)) return;)
  if constexpr (kCompletion == Completion::kBlocking) {
    device::put(coop, state, dest, source, n.bytes(), pe);
  } else {
    device::put_nbi(coop, state, dest, source, n.bytes(), pe);
  }
}

template <Completion kCompletion, class Coop>
GSHMEM_FN void get_as(const Caller& call, Coop coop, void* dest, const void* source, Elements n,
                      int pe) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{pe}, Symmetric{{"source", source, n}},
                       Local{{"dest", dest, n}}))
    return;
  GSHMEM_BY_HOST_OPS(void, Call::transfer(CallKind::kGet, call.name, dest, source, n.bytes(), pe,
                                          kCompletion == Completion::kBlocking))
  GSHMEM_ORDER_CALL(auto t = order::transfer(state, dest, source, n.bytes(), pe,
                                             kCompletion == Completion::kBlocking);
                    if (order::get(*checker, coop, t)) return;)
  if constexpr (kCompletion == Completion::kBlocking) {
    device::get(coop, state, dest, source, n.bytes(), pe);
  } else {
    device::get_nbi(coop, state, dest, source, n.bytes(), pe);
  }
}

#if !defined(__CUDA_ARCH__)
template <class T>
Call word_call(CallKind kind, const Caller& caller, T* dest, const T* source, std::uint64_t operand,
               int pe) {
  Call call(kind, caller.name, pe);
  call.dest = dest;
  call.source = source;
  call.operand = operand;
  call.width = sizeof(T);
  return call;
}
inline Call strided_call(CallKind kind, const Caller& caller, void* dest, const void* source,
                         Strides strides, Elements n, int pe) {
  Call call = Call::transfer(kind, caller.name, dest, source, n.bytes(), pe, true);
  call.dst_stride = strides.dst;
  call.src_stride = strides.src;
  call.width = static_cast<std::uint32_t>(n.size);
  return call;
}
#endif

template <class Coop>
GSHMEM_FN void put(const Caller& call, Coop coop, void* dest, const void* source, Elements n,
                   int pe) {
  put_as<Completion::kBlocking>(call, coop, dest, source, n, pe);
}
template <class Coop>
GSHMEM_FN void put_nbi(const Caller& call, Coop coop, void* dest, const void* source, Elements n,
                       int pe) {
  put_as<Completion::kNonBlocking>(call, coop, dest, source, n, pe);
}
template <class Coop>
GSHMEM_FN void get(const Caller& call, Coop coop, void* dest, const void* source, Elements n,
                   int pe) {
  get_as<Completion::kBlocking>(call, coop, dest, source, n, pe);
}
template <class Coop>
GSHMEM_FN void get_nbi(const Caller& call, Coop coop, void* dest, const void* source, Elements n,
                       int pe) {
  get_as<Completion::kNonBlocking>(call, coop, dest, source, n, pe);
}

template <class T>
GSHMEM_FN void p(const Caller& call, T* dest, T value, int pe) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{pe}, element("dest", dest))) return;
  GSHMEM_ON_HOST_OPS({
    if constexpr (sizeof(T) > sizeof(Call::operand)) {
      (void)ops->run(Call::transfer(CallKind::kPut, call.name, dest, &value, sizeof(T), pe, true));
    } else {
      (void)ops->run(word_call(CallKind::kP, call, dest, dest, bits<Word<T>>(value), pe));
    }
    return;
  })
  GSHMEM_ORDER_CALL(auto t = order::transfer(state, dest, &value, sizeof(T), pe, true);
                    if (order::put(*checker, Thread{}, t)) return;)
  device::p(state, dest, value, pe);
}

template <class T>
GSHMEM_FN T g(const Caller& call, const T* source, int pe) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{pe}, element("source", source))) return T{};
  GSHMEM_ON_HOST_OPS({
    if constexpr (sizeof(T) > sizeof(Call::operand)) {
      T value{};
      (void)ops->run(
          Call::transfer(CallKind::kGet, call.name, &value, source, sizeof(T), pe, true));
      return value;
    } else {
      T* const none = nullptr;
      return bits<T>(
          static_cast<Word<T>>(ops->run(word_call(CallKind::kG, call, none, source, 0, pe))));
    }
  })
  GSHMEM_ORDER_CALL(T value{};
                    if (order::get_element(*checker, state, source, value, pe)) return value;)
  return device::g(state, source, pe);
}

template <std::size_t kSize, class Coop>
GSHMEM_FN void iput(const Caller& call, Coop coop, void* dest, const void* source, Strides strides,
                    int pe) {
  using W = typename WordOf<kSize>::type;
  const State& state = call.state;
  const Elements n{strides.nelems, kSize};
  if (!check_arguments(state, call.name, ToPe{pe},
                       Strided<Symmetric>{"dest", "dst", dest, strides.dst, n},
                       Strided<Local>{"source", "sst", source, strides.src, n}))
    return;
  GSHMEM_BY_HOST_OPS(void, strided_call(CallKind::kIput, call, dest, source, strides, n, pe))
  GSHMEM_ORDER_CALL(auto t = order::strided(state, dest, source, kSize, strides, pe);
                    if (order::put(*checker, coop, t)) return;)
  device::iput(coop, state, static_cast<W*>(dest), static_cast<const W*>(source), strides, pe);
}

template <std::size_t kSize, class Coop>
GSHMEM_FN void iget(const Caller& call, Coop coop, void* dest, const void* source, Strides strides,
                    int pe) {
  using W = typename WordOf<kSize>::type;
  const State& state = call.state;
  const Elements n{strides.nelems, kSize};
  if (!check_arguments(state, call.name, ToPe{pe},
                       Strided<Symmetric>{"source", "sst", source, strides.src, n},
                       Strided<Local>{"dest", "dst", dest, strides.dst, n}))
    return;
  GSHMEM_BY_HOST_OPS(void, strided_call(CallKind::kIget, call, dest, source, strides, n, pe))
  GSHMEM_ORDER_CALL(auto t = order::strided(state, dest, source, kSize, strides, pe);
                    if (order::get(*checker, coop, t)) return;)
  device::iget(coop, state, static_cast<W*>(dest), static_cast<const W*>(source), strides, pe);
}

// --- Atomics -------------------------------------------------------------------------------------
#if !defined(__CUDA_ARCH__)
template <class T>
T amo_host(HostOps* ops, const Caller& caller, AmoOp op, const T* dest, T operand, T cond, int pe) {
  Call call =
      word_call(CallKind::kAmo, caller, const_cast<T*>(dest), dest, bits<Word<T>>(operand), pe);
  call.op = op;
  call.cond = bits<Word<T>>(cond);
  return bits<T>(static_cast<Word<T>>(ops->run(call)));
}
#endif

/// The word that contains an element. It is larger than elements of 2 bytes, which have no atomics
/// of their own.
template <class T>
struct InWord {
  using W = Word<std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>;
  GSHMEM_FN explicit InWord(const T* element) {
    const auto at = reinterpret_cast<std::uintptr_t>(element);
    word = reinterpret_cast<W*>(at - at % sizeof(W));
    shift = static_cast<unsigned>(at % sizeof(W)) * 8;
  }
  GSHMEM_FN T of(W all) const { return bits<T>(static_cast<Word<T>>(all >> shift)); }
  GSHMEM_FN W with(W all, T element) const {
    const W mask = static_cast<W>(static_cast<Word<T>>(~Word<T>{0})) << shift;
    return (all & ~mask) | static_cast<W>(bits<Word<T>>(element)) << shift;
  }
  W* word;
  unsigned shift;
};

/// Replaces the element by `change(element)`, and repeats until the word did not change in between.
/// Returns the old element. After a fault each step returns 0, which ends the loop.
template <class T, class Change>
GSHMEM_FN T amo_change(const Caller& call, T* dest, int pe, const Change& change) {
  if (!check_arguments(call.state, call.name, ToPe{pe}, word("dest", dest))) return T{};
  const InWord<T> in(dest);
  auto seen = amo_fetch(call, in.word, pe);
  while (true) {
    const T old = in.of(seen);
    const auto found = amo_compare_swap(call, in.word, seen, in.with(seen, change(old)), pe);
    if (found == seen) return old;
    seen = found;
  }
}

template <class T>
GSHMEM_FN T amo_fetch(const Caller& call, const T* source, int pe) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{pe}, word("source", source))) return T{};
  if constexpr (sizeof(T) == 2) {
    const InWord<T> in(source);
    return in.of(amo_fetch(call, in.word, pe));
  } else {
    GSHMEM_ON_HOST_OPS(return amo_host(ops, call, AmoOp::kFetch, source, T{}, T{}, pe);)
    GSHMEM_ORDER_CALL(order::fetch(*checker, state, AmoOp::kFetch, source, pe);)
    return device::amo_fetch(state, source, pe);
  }
}

template <class T>
GSHMEM_FN T amo_swap(const Caller& call, T* dest, T value, int pe) {
  const State& state = call.state;
  if constexpr (sizeof(T) == 2) {
    return amo_change(call, dest, pe, [value](T) { return value; });
  } else {
    if (!check_arguments(state, call.name, ToPe{pe}, word("dest", dest))) return T{};
    GSHMEM_ON_HOST_OPS(return amo_host(ops, call, AmoOp::kSwap, dest, value, T{}, pe);)
    GSHMEM_ORDER_CALL(order::fetch(*checker, state, AmoOp::kSwap, dest, pe);)
    return device::amo_swap(state, dest, value, pe);
  }
}

template <class T>
GSHMEM_FN void amo_set(const Caller& call, T* dest, T value, int pe) {
  const State& state = call.state;
  if constexpr (sizeof(T) == 2) {
    (void)amo_swap(call, dest, value, pe);
  } else {
    if (!check_arguments(state, call.name, ToPe{pe}, word("dest", dest))) return;
    GSHMEM_ON_HOST_OPS({
      amo_host(ops, call, AmoOp::kSet, dest, value, T{}, pe);
      return;
    })
    GSHMEM_ORDER_CALL(if (order::update(*checker, state, AmoOp::kSet, dest, value, pe)) return;)
    device::amo_set(state, dest, value, pe);
  }
}

template <class T>
GSHMEM_FN T amo_compare_swap(const Caller& call, T* dest, T cond, T value, int pe) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{pe}, word("dest", dest))) return T{};
  GSHMEM_ON_HOST_OPS(return amo_host(ops, call, AmoOp::kCompareSwap, dest, value, cond, pe);)
  GSHMEM_ORDER_CALL(order::fetch(*checker, state, AmoOp::kCompareSwap, dest, pe);)
  return device::amo_compare_swap(state, dest, cond, value, pe);
}

#define GSHMEM_API_AMO(OP, OP_NAME)                                                       \
  template <class T>                                                                      \
  GSHMEM_FN T amo_fetch_##OP(const Caller& call, T* dest, T value, int pe) {              \
    const State& state = call.state;                                                      \
    if (!check_arguments(state, call.name, ToPe{pe}, word("dest", dest))) return T{};     \
    GSHMEM_ON_HOST_OPS(return amo_host(ops, call, AmoOp::OP_NAME, dest, value, T{}, pe);) \
    GSHMEM_ORDER_CALL(order::fetch(*checker, state, AmoOp::OP_NAME, dest, pe);)           \
    return device::amo_fetch_##OP(state, dest, value, pe);                                \
  }                                                                                       \
  template <class T>                                                                      \
  GSHMEM_FN void amo_##OP(const Caller& call, T* dest, T value, int pe) {                 \
    const State& state = call.state;                                                      \
    if (!check_arguments(state, call.name, ToPe{pe}, word("dest", dest))) return;         \
    GSHMEM_ON_HOST_OPS({                                                                  \
      amo_host(ops, call, AmoOp::OP_NAME, dest, value, T{}, pe);                          \
      return;                                                                             \
    })                                                                                    \
    GSHMEM_ORDER_CALL(                                                                    \
        if (order::update(*checker, state, AmoOp::OP_NAME, dest, value, pe)) return;)     \
    device::amo_##OP(state, dest, value, pe);                                             \
  }
GSHMEM_API_AMO(add, kAdd)
GSHMEM_API_AMO(and, kAnd)
GSHMEM_API_AMO(or, kOr)
GSHMEM_API_AMO(xor, kXor)
#undef GSHMEM_API_AMO

/// Adds to floating-point elements. The GPU adds in place to elements of 4 and 8 bytes. A NIC adds
/// to none.
template <class T>
GSHMEM_FN T amo_fetch_add_float(const Caller& call, T* dest, T value, int pe) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) > 2) {
    if (!check_arguments(call.state, call.name, ToPe{pe}, word("dest", dest))) return T{};
    if (amo_is_mapped(call.state, pe))
      return atomic_fetch_add(peer_address(call.state, dest, pe), value);
  }
#endif
  return amo_change(call, dest, pe,
                    [value](T old) { return reduce_two<ReduceOp::kSum>(old, value); });
}
template <class T>
GSHMEM_FN void amo_add_float(const Caller& call, T* dest, T value, int pe) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) > 2) {
    if (!check_arguments(call.state, call.name, ToPe{pe}, word("dest", dest))) return;
    if (amo_is_mapped(call.state, pe)) {
      atomic_add(peer_address(call.state, dest, pe), value);
      return;
    }
  }
#endif
  (void)amo_fetch_add_float(call, dest, value, pe);
}

/// The nbi forms: the result of `fetching`, the form of the same name, is stored to `fetch`.
/// `object` is the argument that the call names `name`.
template <class T, class Fetching>
GSHMEM_FN void fetch_into(const Caller& call, T* fetch, const char* name, const T* object, int pe,
                          const Fetching& fetching) {
  if (!check_arguments(call.state, call.name, ToPe{pe}, word(name, object),
                       Local{{"fetch", fetch, {1, sizeof(T)}, sizeof(T)}}))
    return;
  const T old = fetching();
  GSHMEM_ORDER_CALL(if (order::land(*checker, call.state, fetch, old, pe)) return;)
  GSHMEM_ON_HOST_OPS({
    (void)ops->run(  // it may be GPU memory
        Call::transfer(CallKind::kCopy, call.name, fetch, &old, sizeof(T), -1, true));
    return;
  })
  *fetch = old;
}

// --- Signals -------------------------------------------------------------------------------------
#if !defined(__CUDA_ARCH__)
inline Call with_signal(Call call, const SignalUpdate& signal) {
  call.signal = signal.address;
  call.operand = signal.value;
  call.op = signal.op == GSHMEM_SIGNAL_SET ? AmoOp::kSet : AmoOp::kAdd;
  return call;
}
#endif

GSHMEM_FN void signal_op(const Caller& call, SignalUpdate signal, int pe) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{pe}, SignalOp{signal.op},
                       word("sig_addr", signal.address)))
    return;
  GSHMEM_BY_HOST_OPS(void, with_signal(Call(CallKind::kSignal, call.name, pe), signal))
  GSHMEM_ORDER_CALL(if (order::update(*checker, state, signal, pe)) return;)
  device::signal_op(state, signal, pe);
}

template <Completion kCompletion, class Coop>
GSHMEM_FN void put_signal_as(const Caller& call, Coop coop, void* dest, const void* source,
                             Elements n, SignalUpdate signal, int pe) {
  const State& state = call.state;
  if (!check_arguments(state, call.name, ToPe{pe}, Symmetric{{"dest", dest, n}},
                       Local{{"source", source, n}}, SignalOp{signal.op},
                       word("sig_addr", signal.address), Apart{signal.address, dest, n}))
    return;
  GSHMEM_BY_HOST_OPS(
      void, with_signal(Call::transfer(CallKind::kPutSignal, call.name, dest, source, n.bytes(), pe,
                                       kCompletion == Completion::kBlocking),
                        signal))
  GSHMEM_ORDER_CALL(auto t = order::transfer(state, dest, source, n.bytes(), pe,
                                             kCompletion == Completion::kBlocking);
                    if (order::put(*checker, coop, t, &signal)) return;)
  if constexpr (kCompletion == Completion::kBlocking) {
    device::put_signal(coop, state, dest, source, n.bytes(), signal, pe);
  } else {
    device::put_signal_nbi(coop, state, dest, source, n.bytes(), signal, pe);
  }
  GSHMEM_WATCH(if (coop.thread_rank() == 0) order::tell_arrival(watch, signal.address, pe);)
}

template <class Coop>
GSHMEM_FN void put_signal(const Caller& call, Coop coop, void* dest, const void* source, Elements n,
                          SignalUpdate signal, int pe) {
  put_signal_as<Completion::kBlocking>(call, coop, dest, source, n, signal, pe);
}
template <class Coop>
GSHMEM_FN void put_signal_nbi(const Caller& call, Coop coop, void* dest, const void* source,
                              Elements n, SignalUpdate signal, int pe) {
  put_signal_as<Completion::kNonBlocking>(call, coop, dest, source, n, signal, pe);
}

// --- Ordering, barriers, queries -----------------------------------------------------------------
GSHMEM_FN void fence(const Caller& call) {
  const State& state = call.state;
  GSHMEM_BY_HOST_OPS(void, Call::quiet(call.name, &state))
  GSHMEM_ORDER_CALL(checker->fence(state);)
  device::fence(Thread{}, state);
}

GSHMEM_FN void quiet(const Caller& call) {
  const State& state = call.state;
  GSHMEM_BY_HOST_OPS(void, Call::quiet(call.name, &state))
  GSHMEM_ORDER_CALL(checker->quiet(state, -1);)
  device::quiet(Thread{}, state);
}

template <class Coop>
GSHMEM_FN void flush(const Caller& call, Coop coop) {
  const State& state = call.state;
  GSHMEM_BY_HOST_OPS(void, Call::quiet(call.name, &state))
  GSHMEM_ORDER_CALL(order::by_group(coop, [&] { checker->quiet(state, -1); });)
  device::flush(coop, state);
}

template <class Coop>
GSHMEM_FN int quiet_status(const Caller& call, Coop coop) {
  const State& state = call.state;
  GSHMEM_BY_HOST_OPS(int, Call(CallKind::kQuietStatus, call.name))
  GSHMEM_ORDER_CALL(order::by_group(coop, [&] { checker->quiet(state, -1); });)
  return device::quiet_status(coop, state, call.name);
}

/// Resets a word, which is on this PE. Operations by a NIC end only in quiet.
GSHMEM_FN void signal_counted_reset(const Caller& call, std::uint64_t* sig_addr) {
  const int me = call.state.my_pe;
  signal_op(call, {sig_addr, 0, GSHMEM_SIGNAL_SET}, me);
  GSHMEM_ORDER_CALL(checker->quiet(call.state, me);)
  if (!set_is_mapped(call.state, me)) quiet(call);
}

#if !defined(__CUDA_ARCH__)
inline Call team_call(CallKind kind, const Caller& caller, int team) {
  Call call(kind, caller.name);
  call.team = team;
  return call;
}
inline int host_sync(HostOps& ops, CallKind kind, const Caller& call, int team) {
  if (!find_team(call.state, call.name, "team", team)) return GSHMEMX_ERROR_INVALID_VALUE;
  return static_cast<int>(ops.run(team_call(kind, call, team)));
}
#endif

template <class Coop>
GSHMEM_FN void barrier_all(const Caller& call, Coop coop) {
  const State& state = call.state;
  GSHMEM_BY_HOST_OPS(void, team_call(CallKind::kBarrier, call, GSHMEM_TEAM_WORLD))
  GSHMEM_ORDER_CALL(order::by_group(coop, [&] { checker->quiet(state, -1); });)
  GSHMEM_WATCH(order::enter(watch, coop);)
  device::barrier_all(coop, state, call.name);
  GSHMEM_WATCH(order::leave(watch, coop, true);)
}

template <class Coop>
GSHMEM_FN void sync_all(const Caller& call, Coop coop) {
  const State& state = call.state;
  GSHMEM_BY_HOST_OPS(void, team_call(CallKind::kSync, call, GSHMEM_TEAM_WORLD))
  GSHMEM_WATCH(order::enter(watch, coop);)
  device::sync_all(coop, state, call.name);
  GSHMEM_WATCH(order::leave(watch, coop, true);)
}

/// A barrier of a team: returns 0, or a status if it had to end early.
template <class Coop>
GSHMEM_FN int barrier(const Caller& call, Coop coop, int team) {
  GSHMEM_ON_HOST_OPS(return host_sync(*ops, CallKind::kBarrier, call, team);)
  GSHMEM_ORDER_CALL(order::by_group(coop, [&] { checker->quiet(call.state, -1); });)
  const int status = device::team_barrier(coop, call.state, call.name, team);
  GSHMEM_WATCH(order::leave(watch, coop, false);)
  return status;
}
template <class Coop>
GSHMEM_FN int team_sync(const Caller& call, Coop coop, int team) {
  GSHMEM_ON_HOST_OPS(return host_sync(*ops, CallKind::kSync, call, team);)
  const int status = device::team_sync(coop, call.state, call.name, team);
  GSHMEM_WATCH(order::leave(watch, coop, false);)
  return status;
}

GSHMEM_FN int my_pe(const Caller& call) { return call.state.my_pe; }
GSHMEM_FN int n_pes(const Caller& call) { return call.state.n_pes; }
GSHMEM_FN int team_my_pe(const Caller& call, int team) {
  return team_position(call.state, call.name, team).my_pe;
}
GSHMEM_FN int team_n_pes(const Caller& call, int team) {
  return team_position(call.state, call.name, team).n_pes;
}
GSHMEM_FN int team_translate_pe(const Caller& call, int src_team, int src_pe, int dest_team) {
  return team_translate(call.state, call.name, src_team, src_pe, dest_team);
}
GSHMEM_FN void* ptr(const Caller& call, const void* dest, int pe) {
  return device::ptr(call.state, dest, pe);
}

GSHMEM_FN void* team_ptr(const Caller& call, int team, const void* dest, int pe) {
  const abi::Team* entry = ask_team(call.state, call.name, "team", team);
  if (!entry || pe < 0 || pe >= entry->n_pes) return nullptr;
  return device::ptr(call.state, dest, team_pe(*entry, pe));
}

/// NVLink multicast is not used.
GSHMEM_FN void* mc_ptr(const Caller&, int, const void*) { return nullptr; }

GSHMEM_FN int pe_accessible(const Caller& call, int pe) {
  return pe >= 0 && pe < call.state.n_pes ? 1 : 0;
}
GSHMEM_FN int addr_accessible(const Caller& call, const void* addr, int pe) {
  return pe_accessible(call, pe) != 0 && is_symmetric(call.state, addr, 1) ? 1 : 0;
}

}  // namespace gshmem::api

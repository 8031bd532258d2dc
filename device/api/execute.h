// Executes one call record (device/core/call_record.h) by the calling group. It is the service
// kernel's only function, and is used in CPU mode when a host thread stands in for a stream.
// Invariant: everything that HostOps and streams can request is one case here, and no other device
// code reads records.
#pragma once

#include "../ops/amo.h"
#include "../collective/collective.h"
#include "../core/call_record.h"
#include "../ops/order.h"
#include "../ops/pieces.h"
#include "../ops/rma.h"
#include "../ops/signal.h"
#include "../ops/sync.h"
#include "../core/wait.h"

namespace gshmem::device {

/// Calls `work` with a value of the unsigned type of `width` bytes: up to 8, or 16.
template <class Work>
GSHMEM_FN void with_word(std::uint32_t width, const Work& work) {
  switch (width) {
    case 1:
      return work(std::uint8_t{});
    case 2:
      return work(std::uint16_t{});
    case 4:
      return work(std::uint32_t{});
    case 8:
      return work(std::uint64_t{});
    default:
      return work(Word16{});
  }
}

template <class T>
GSHMEM_OUTLINE std::uint64_t execute_amo(const State& state, const Call& call) {
  T* target = static_cast<T*>(call.dest);
  const T operand = static_cast<T>(call.operand);
  switch (call.op) {
    case AmoOp::kFetch:
      return amo_fetch(state, target, call.pe);
    case AmoOp::kSet:
    case AmoOp::kSwap:
      return amo_swap(state, target, operand, call.pe);
    case AmoOp::kCompareSwap:
      return amo_compare_swap(state, target, static_cast<T>(call.cond), operand, call.pe);
    case AmoOp::kAdd:
      return amo_fetch_add(state, target, operand, call.pe);
    case AmoOp::kAnd:
      return amo_fetch_and(state, target, operand, call.pe);
    case AmoOp::kOr:
      return amo_fetch_or(state, target, operand, call.pe);
    case AmoOp::kXor:
      return amo_fetch_xor(state, target, operand, call.pe);
  }
  return 0;
}

GSHMEM_FN SignalUpdate signal_of(const Call& call) {
  return {call.signal, call.operand,
          call.op == AmoOp::kSet ? GSHMEM_SIGNAL_SET : GSHMEM_SIGNAL_ADD};
}

template <class T>
GSHMEM_OUTLINE void execute_wait(const State& state, const char* name, const Call& call) {
  const WaitSet<T> set{static_cast<const T*>(call.source),
                       call.bytes / sizeof(T),
                       call.status,
                       call.cmp,
                       {static_cast<T>(call.operand), static_cast<const T*>(call.values)}};
  wait_until_all(state, name, set);
  push_inbound(state);
}
GSHMEM_FN void execute_wait(const State& state, const char* name, const Call& call) {
  if (call.width == 2) {
    return call.is_signed ? execute_wait<std::int16_t>(state, name, call)
                          : execute_wait<std::uint16_t>(state, name, call);
  }
  if (call.width == 4) {
    return call.is_signed ? execute_wait<std::int32_t>(state, name, call)
                          : execute_wait<std::uint32_t>(state, name, call);
  }
  return call.is_signed ? execute_wait<std::int64_t>(state, name, call)
                        : execute_wait<std::uint64_t>(state, name, call);
}

/// Encodes that word `word` of round `round` had its old value when a signal, or the end of a get,
/// announced its arrival.
GSHMEM_FN constexpr std::uint64_t late_word(bool by_get, std::uint64_t round, std::uint64_t word) {
  return std::uint64_t{1} << 63 | std::uint64_t{by_get} << 62 | word << 32 | round;
}

/// Tests ordering in `operand` rounds. A round puts a payload of `bytes` from `source` to `dest` of
/// PE `pe`, which is this PE, sets `signal` after it, and then gets it back to after `dest`. It
/// checks that data has arrived when that is announced. Words have the value of their round,
/// counted from `cond`. Returns 0 if all did, or when a fault has ended it.
GSHMEM_OUTLINE std::uint64_t execute_order(const State& state, const char* name, const Call& call) {
  const std::uint64_t words = call.bytes / sizeof(std::uint64_t);
  auto* const source = static_cast<std::uint64_t*>(const_cast<void*>(call.source));
  auto* const dest = static_cast<std::uint64_t*>(call.dest);
  for (std::uint64_t round = 1; round <= call.operand; ++round) {
    const std::uint64_t value = call.cond + round;
    for (std::uint64_t i = 0; i < words; ++i) store_relaxed(source + i, value);
    put_signal_nbi(Thread{}, state, dest, source, call.bytes,
                   {call.signal, value, GSHMEM_SIGNAL_SET}, call.pe);
    signal_wait_until(state, name, call.signal, GSHMEM_CMP_EQ, value);
    for (unsigned step = 0; step < 2; ++step) {
      const bool by_get = step == 1;
      if (by_get) get(Thread{}, state, dest + words, dest, call.bytes, call.pe);
      if (load_acquire(&state.control->stop) != 0) return 0;
      const std::uint64_t* const came = dest + (by_get ? words : 0);
      for (std::uint64_t i = 0; i < words; ++i)
        if (load_relaxed(came + i) != value) return late_word(by_get, round, i);
    }
  }
  return 0;
}

/// Posts a NOP without the usual protocol on the first queue, which must not be in use, and rings
/// by one store to its register: without the doorbell record, which follows when the NIC has seen
/// it, or after the record (`operand` 1).
GSHMEM_OUTLINE std::uint64_t execute_nop(const State& state, const char* name, const Call& call) {
  const bool record_first = call.operand != 0;
  const std::uint32_t traits = state.nic.traits;
  Wait wait;
  begin_wait(wait, &state, state.nic.queues, name);
  const Queue queue = wait.queue;
  const std::uint64_t index = load_relaxed(&queue.cursor()->reserved), end = index + 1;
  const std::uint32_t at =
      static_cast<std::uint32_t>(index) & (abi::QueueTraits::depth(traits) - 1);
  store_bulk(reinterpret_cast<Word16*>(queue.entries()) + at * 4,
             placed(control_unit({Opcode::kNop, 0, 1, 0}), index, queue.number(), abi::kCqUpdate));
  store_relaxed(&queue.cursor()->reserved, end);
  queue_fence(traits);
  const QueueBells bells = queue.bells();
  const auto store_end = [&] {
    store_record(&bells.send_record->raw, Be32(static_cast<std::uint32_t>(end) & 0xffff).raw);
  };
  if (record_first) {
    store_end();
    queue_fence(traits);
  }
  store_register(bells.doorbell,
                 abi::doorbell_value(static_cast<std::uint32_t>(end), bells.number));
  // This is the state after a post by the library.
  store_relaxed(&queue.cursor()->ready, PublishedWord::make(end, 1));
  queue_note_used(wait);
  wait_for(wait, Await::kDone, end);
  queue_await(wait);
  if (!record_first) store_end();
  return post_report(wait) ? 1 : 0;
}

/// Measures how long one thread takes for `operand` calls of the kind `cond` (kPut, kGet, kAmo or
/// kSignal, which add 1). It waits for each if the record says so, otherwise for all at the end.
GSHMEM_OUTLINE std::uint64_t execute_timed(const State& state, const Call& call) {
  const auto kind = static_cast<CallKind>(call.cond);
  const std::uint64_t begin = now_ns();
  GSHMEM_NO_UNROLL
  for (std::uint64_t i = 0; i < call.operand; ++i) {
    if (kind == CallKind::kPut) {
      put_nbi(Thread{}, state, call.dest, call.source, call.bytes, call.pe);
    } else if (kind == CallKind::kGet) {
      get_nbi(Thread{}, state, call.dest, call.source, call.bytes, call.pe);
    } else if (kind == CallKind::kAmo) {
      amo_fetch_add(state, static_cast<std::uint64_t*>(call.dest), std::uint64_t{1}, call.pe);
    } else {
      signal_op(state, {call.signal, 1, GSHMEM_SIGNAL_ADD}, call.pe);
    }
    if (call.waits != 0) quiet(Thread{}, state);
  }
  quiet(Thread{}, state);
  return now_ns() - begin;
}

/// Executes calls of one thread, and returns the result.
GSHMEM_FN std::uint64_t execute_alone(const State& state, const char* name, const Call& call) {
  std::uint64_t answer = 0;
  switch (call.kind) {
    case CallKind::kAmo:
      return call.width == 4 ? execute_amo<std::uint32_t>(state, call)
                             : execute_amo<std::uint64_t>(state, call);
    case CallKind::kSignal:
      signal_op(state, signal_of(call), call.pe);
      break;
    case CallKind::kWait:
      execute_wait(state, name, call);
      break;
    case CallKind::kP:
      with_word(call.width, [&](auto word) {
        using W = decltype(word);
        if constexpr (sizeof(W) <= sizeof(answer))
          p(state, static_cast<W*>(call.dest), static_cast<W>(call.operand), call.pe);
      });
      break;
    case CallKind::kG:
      with_word(call.width, [&](auto word) {
        using W = decltype(word);
        if constexpr (sizeof(W) <= sizeof(answer))
          answer = g(state, static_cast<const W*>(call.source), call.pe);
      });
      break;
    case CallKind::kProve:
      return nic::prove(state, static_cast<std::uint32_t>(call.operand)) ? 1 : 0;
    case CallKind::kOrder:
      return execute_order(state, name, call);
    case CallKind::kNop:
      return execute_nop(state, name, call);
    case CallKind::kTimed:
      return execute_timed(state, call);
    case CallKind::kLoad:
      with_word(call.width, [&](auto word) {
        using W = decltype(word);
        if constexpr (sizeof(W) <= sizeof(answer))
          answer = load_acquire(static_cast<const W*>(call.source));
      });
      break;
    default:
      break;
  }
  return answer;
}

template <class Coop>
GSHMEM_OUTLINE void execute_put(Coop coop, const State& state, const Call& call) {
  return call.waits ? put(coop, state, call.dest, call.source, call.bytes, call.pe)
                    : put_nbi(coop, state, call.dest, call.source, call.bytes, call.pe);
}
template <class Coop>
GSHMEM_OUTLINE void execute_get(Coop coop, const State& state, const Call& call) {
  return call.waits ? get(coop, state, call.dest, call.source, call.bytes, call.pe)
                    : get_nbi(coop, state, call.dest, call.source, call.bytes, call.pe);
}
template <class Coop>
GSHMEM_OUTLINE void execute_put_signal(Coop coop, const State& state, const Call& call) {
  put_signal_as(coop, state, call.dest, call.source, call.bytes, signal_of(call), call.pe,
                call.waits ? nic::Reuse::kOnReturn : nic::Reuse::kAtQuiet);
}
template <class Coop>
GSHMEM_OUTLINE void execute_list(Coop coop, const State& state, const char* name,
                                 const Call& call) {
  const ListCall list{&state,
                      name,
                      static_cast<const Piece*>(call.source),
                      call.bytes,
                      call.pe,
                      call.kind == CallKind::kPutv,
                      call.waits != 0,
                      call.signal != nullptr,
                      call.op,
                      call.signal,
                      call.operand};
  (void)move_list(coop, list);
}
template <class W, class Coop>
GSHMEM_OUTLINE void execute_strided(Coop coop, const State& state, const Call& call) {
  const Strides strides{call.dst_stride, call.src_stride, call.bytes / sizeof(W)};
  W* const dest = static_cast<W*>(call.dest);
  const W* const source = static_cast<const W*>(call.source);
  if (call.kind == CallKind::kIput) {
    iput(coop, state, dest, source, strides, call.pe);
  } else {
    iget(coop, state, dest, source, strides, call.pe);
  }
}

template <class Coop>
GSHMEM_FN void execute_transfer(Coop coop, const State& state, const Call& call) {
  switch (call.kind) {
    case CallKind::kPut:
      return execute_put(coop, state, call);
    case CallKind::kGet:
      return execute_get(coop, state, call);
    case CallKind::kPutSignal:
      return execute_put_signal(coop, state, call);
    case CallKind::kCopy:
      return copy<Source::kLocal>(coop, call.dest, call.source, call.bytes);
    default:  // strided calls
      return with_word(call.width,
                       [&](auto word) { execute_strided<decltype(word)>(coop, state, call); });
  }
}

/// For elements of W.
template <class W, class Coop>
GSHMEM_OUTLINE int execute_reduction(Coop coop, const TeamCall& of, const Call& call) {
  const AnyReducer reducer{call.reduce_op, call.type};
  if (call.kind == CallKind::kReducescatter)
    return reducescatter<W>(coop, at_own_part(of), reducer);
  if (call.kind == CallKind::kInscan) return scan<Result::kInclusive, W>(coop, of, reducer);
  if (call.kind == CallKind::kExscan) return scan<Result::kExclusive, W>(coop, of, reducer);
  return reduce<W>(coop, of, reducer);
}
template <class Coop>
GSHMEM_FN int execute_collective(Coop coop, const State& state, const char* name,
                                 const Call& call) {
  const abi::Team* const team = find_team(state, name, "team", call.team);
  if (!team) return GSHMEMX_ERROR_INVALID_VALUE;
  const TeamCall of{&state, name, team, call.dest, call.source, call.bytes};
  if (call.kind == CallKind::kAlltoall) return alltoall(coop, at_own_part(of));
  if (call.kind == CallKind::kBroadcast) return broadcast(coop, of, call.pe);
  if (call.kind == CallKind::kFcollect) return fcollect(coop, of);
  if (call.kind == CallKind::kCollect) return collect(coop, of);
  int status = 0;
  if (call.kind == CallKind::kAlltoalls) {
    const Strides strides{call.dst_stride, call.src_stride, call.bytes / call.width};
    with_word(call.width,
              [&](auto word) { status = alltoalls<decltype(word)>(coop, of, strides); });
  } else {
    with_word(element_bytes(call.type),
              [&](auto word) { status = execute_reduction<decltype(word)>(coop, of, call); });
  }
  return status;
}

/// Executes `call`, by all threads of the group; `name` replaces call.name, which may be in memory
/// that they cannot access. The result is that of thread 0.
template <class Coop>
GSHMEM_FN std::uint64_t execute(Coop coop, const State& state, const char* name, const Call& call) {
  switch (call.kind) {
    case CallKind::kPut:
    case CallKind::kGet:
    case CallKind::kPutSignal:
    case CallKind::kIput:
    case CallKind::kIget:
    case CallKind::kCopy:
      execute_transfer(coop, state, call);
      return 0;
    case CallKind::kPutv:
    case CallKind::kGetv:
      execute_list(coop, state, name, call);
      return 0;
    case CallKind::kQuiet:
      quiet(coop, call.context ? *call.context : state);
      return 0;
    case CallKind::kQuietStatus:
      return static_cast<std::uint64_t>(
          quiet_status(coop, call.context ? *call.context : state, name));
    case CallKind::kBarrier:
      return static_cast<std::uint64_t>(team_barrier(coop, state, name, call.team));
    case CallKind::kSync:
      return static_cast<std::uint64_t>(team_sync(coop, state, name, call.team));
    case CallKind::kAlltoall:
    case CallKind::kBroadcast:
    case CallKind::kFcollect:
    case CallKind::kCollect:
    case CallKind::kAlltoalls:
    case CallKind::kReduce:
    case CallKind::kReducescatter:
    case CallKind::kInscan:
    case CallKind::kExscan:
      return static_cast<std::uint64_t>(execute_collective(coop, state, name, call));
    default:
      return coop.thread_rank() == 0 ? execute_alone(state, name, call) : 0;
  }
}

}  // namespace gshmem::device

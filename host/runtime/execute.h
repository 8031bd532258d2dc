// Executes one call record (device/core/call_record.h) by the calling group. It is the only
// function of the service kernel. In CPU mode a host thread calls it in place of a stream.
// Invariant: everything that HostOps and streams can request is one case here, and no other device
// code reads records.
#pragma once

#include "host/runtime/execute_selftest.h"

#include <gshmem/device/collective/collective.h>
#include <gshmem/device/core/call_record.h>
#include <gshmem/device/core/wait.h>
#include <gshmem/device/ops/amo.h>
#include <gshmem/device/ops/order.h>
#include <gshmem/device/ops/pieces.h>
#include <gshmem/device/ops/rma.h>
#include <gshmem/device/ops/signal.h>
#include <gshmem/device/ops/sync.h>

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
    case CallKind::kTimed:
      if (call.blocks > 0) return execute_timed_in_parts(coop, state, call);
      [[fallthrough]];
    default:
      return coop.thread_rank() == 0 ? execute_alone(state, name, call) : 0;
  }
}

}  // namespace gshmem::device

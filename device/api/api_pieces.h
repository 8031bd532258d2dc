// The API layer of lists of pieces: checks of lists, and the calls putv and getv. Included by
// api_context.h and the C++ API; include/gshmem/lists.def has the contract.
#pragma once

#include "api.h"
#include "../core/register_bounds.h"
#include "../ops/pieces.h"

#include <cstdio>

namespace gshmem::api {

/// A list, and for streams the blocks that move it.
struct Pieces {
  const gshmemx_piece_t* list;
  std::size_t count;
  int num_blocks = 0;
};

/// Records that a member of piece `index` violates `rule`. `member` is "[].dest", for example.
/// Returns false.
GSHMEM_OUTLINE bool bad_piece(const Caller& call, const char* member, std::size_t index,
                              abi::Rule rule, std::uint64_t value, std::uint64_t limit) {
  FaultInfo info{GSHMEMX_ERROR_INVALID_VALUE, call.name, member, value, limit};
  info.rule = rule;
  info.wqe_index = static_cast<std::uint32_t>(index);
  fault(call.state, info);
  return false;
}

#if !defined(__CUDA_ARCH__)
/// Does the symmetric memory of a piece belong to one allocation (GSHMEM_CHECK)?
inline bool is_one_allocation(const Caller& call, const char* member, std::size_t index,
                              const void* p, std::size_t bytes) {
  device::HostChecks* const checks = gshmemi_ambient()->checks;
  if (!checks || !checks->looks_at_allocations()) return true;
  char name[48];
  std::snprintf(name, sizeof(name), "pieces[%zu]%s", index, member + 2);
  return checks->is_one_allocation(call.state, call.name, name, p, bytes);
}
#endif

/// The pieces of a list, whose symmetric addresses are those of a put or of a get. `sig_addr` is
/// null, or outside of the memory that a put writes.
struct GoodPieces {
  Pieces pieces;
  bool is_put;
  const std::uint64_t* sig_addr;
  GSHMEM_FN bool good(const State& state, const char* name) const {
    if (pieces.num_blocks < 0)
      return bad_argument(state, name, "num_blocks", abi::Rule::kNotNegative,
                          as_value(pieces.num_blocks));
    const Elements n{pieces.count, sizeof(gshmemx_piece_t)};
    if (n.count > n.most())
      return bad_argument(state, name, "npieces", abi::Rule::kOverflow, n.count, n.most());
    if (!Local{{"pieces", pieces.list, n, alignof(gshmemx_piece_t)}}.good(state, name))
      return false;
#if !defined(__CUDA_ARCH__)
    if (HostOps* const ops = gshmemi_ambient()->ops;
        ops && n.count != 0 && !ops->reads(pieces.list))
      return bad_argument(state, name, "pieces", abi::Rule::kOfHost, as_value(pieces.list));
#endif
    GSHMEM_NO_UNROLL
    for (std::size_t i = 0; i < pieces.count; ++i)
      if (pieces.list[i].bytes != 0 && !is_good({state, name}, i, pieces.list[i])) return false;
    return true;
  }

 private:
  GSHMEM_FN bool is_good(const Caller& call, std::size_t i, const gshmemx_piece_t& piece) const {
    const char* const symmetric_name = is_put ? "[].dest" : "[].source";
    const char* const local_name = is_put ? "[].source" : "[].dest";
    const void* const symmetric = is_put ? piece.dest : piece.source;
    const void* const local = is_put ? piece.source : piece.dest;
    if (piece.bytes > PTRDIFF_MAX)
      return bad_piece(call, "[].bytes", i, abi::Rule::kOverflow, piece.bytes, PTRDIFF_MAX);
    if (!is_symmetric(call.state, symmetric, piece.bytes))
      return bad_piece(call, symmetric_name, i, abi::Rule::kSymmetric, as_value(symmetric),
                       piece.bytes);
#if !defined(__CUDA_ARCH__)
    if (!is_one_allocation(call, symmetric_name, i, symmetric, piece.bytes)) return false;
#endif
    if (!local) return bad_piece(call, local_name, i, abi::Rule::kNotNull, 0, piece.bytes);
    return !is_put || !sig_addr ||
           Apart{sig_addr, piece.dest, {piece.bytes, 1}}.good(call.state, call.name);
  }
};

#if !defined(__CUDA_ARCH__)
inline Call record_of(const ListCall& list, int num_blocks) {
  Call call = Call::transfer(list.is_put ? CallKind::kPutv : CallKind::kGetv, list.name, nullptr,
                             list.list, list.count, list.pe, list.blocking);
  call.blocks = num_blocks;
  call.signal = list.has_signal ? list.word : nullptr;
  call.operand = list.value;
  call.op = list.op;
  return call;
}
#endif

}  // namespace gshmem::api

#if defined(GSHMEM_WATCH_ON)
namespace gshmem::device::order {

/// Records the pieces of a list, and its signal after them.
template <class Coop>
GSHMEM_FN void list(const Watch& watch, Coop coop, const ListCall& call) {
  by_group(coop, [&] {
    if (call.has_signal) {
      look_at_signal(watch, call.pe);
      tell_word(watch, call.word, call.pe, call.op == AmoOp::kAdd);
    }
    GSHMEM_NO_UNROLL
    for (std::size_t i = 0; i < call.count; ++i) {
      const Piece& piece = call.list[i];
      const Range to = range_of(piece.dest, piece.bytes);
      const Range from = range_of(piece.source, piece.bytes);
      const OrderKind put = call.has_signal ? OrderKind::kPutSignal : OrderKind::kPut;
      const Use use = call.is_put ? Use{from, to, call.pe, put}
                                  : Use{to, from, call.pe, OrderKind::kGet, false};
      if (piece.bytes == 0) continue;
      look(watch, use);
      if (call.is_put || !call.blocking) note(watch, use, !call.blocking);
    }
  });
}

}  // namespace gshmem::device::order
#endif

#if defined(GSHMEM_ORDER_ON)
namespace gshmem::device::order {

/// Passes the pieces of a list to the checker, as puts or gets, and then an update that is ordered
/// after them.
template <class Coop>
inline bool list(Checker& checker, Coop coop, const ListCall& call) {
  const State& state = *call.state;
  if (!is_mapped(state, call.pe)) return false;
  coop.sync();
  if (coop.thread_rank() == 0) {
    for (std::size_t i = 0; i < call.count; ++i) {
      const Piece& piece = call.list[i];
      const Transfer t =
          transfer(state, piece.dest, piece.source, piece.bytes, call.pe, call.blocking);
      if (piece.bytes == 0) continue;
      (void)(call.is_put ? put(checker, Thread{}, t) : get(checker, Thread{}, t));
    }
    const SignalUpdate signal{call.word, call.value,
                              call.op == AmoOp::kSet ? GSHMEM_SIGNAL_SET : GSHMEM_SIGNAL_ADD};
    if (call.has_signal) checker.fence(state);
    if (call.has_signal && !update(checker, state, signal, call.pe)) update_after_list(call);
  }
  coop.sync();
  return true;
}

}  // namespace gshmem::device::order
#endif

namespace gshmem::api {

/// Executes a list whose arguments are valid.
template <class Coop>
GSHMEM_FN void move_list(Coop coop, const ListCall& list, [[maybe_unused]] int num_blocks) {
  GSHMEM_BY_HOST_OPS(void, record_of(list, num_blocks))
  GSHMEM_ORDER(if (order::list(*checker, coop, list)) return;)
  GSHMEM_FIT((&device::move_list<Coop>), Coop, ListCall);
  (void)device::move_list(coop, list);
}

GSHMEM_FN ListCall list_of(const Caller& call, Pieces pieces, int pe, bool is_put,
                           Completion completion) {
  const bool blocking = completion == Completion::kBlocking;
  return {&call.state, call.name, pieces.list, pieces.count, pe, is_put,
          blocking,    false,     AmoOp::kSet, nullptr,      0};
}
/// Synchronizes the group before the list is checked, because its threads may have written parts of
/// the list.
template <class Coop>
GSHMEM_FN void begin_list(Coop coop) {
  if constexpr (kChecks) {
    sync_lanes(coop);
    coop.sync();
  }
}

template <Completion kCompletion, bool kPut, class Coop>
GSHMEM_FN void list_as(const Caller& call, Coop coop, Pieces pieces, int pe) {
  begin_list(coop);
  if (!check_arguments(call.state, call.name, ToPe{pe}, GoodPieces{pieces, kPut, nullptr})) return;
  const ListCall list = list_of(call, pieces, pe, kPut, kCompletion);
  GSHMEM_WATCH(order::list(watch, coop, list);)
  move_list(coop, list, pieces.num_blocks);
}
template <Completion kCompletion, bool kPut, class Coop>
GSHMEM_FN void list_signal_as(const Caller& call, Coop coop, Pieces pieces, SignalUpdate signal,
                              int pe) {
  begin_list(coop);
  if (!check_arguments(call.state, call.name, ToPe{pe}, SignalOp{signal.op},
                       word("sig_addr", signal.address), GoodPieces{pieces, kPut, signal.address}))
    return;
  ListCall list = list_of(call, pieces, pe, kPut, kCompletion);
  list.has_signal = true;
  list.op = signal.op == GSHMEM_SIGNAL_SET ? AmoOp::kSet : AmoOp::kAdd;
  list.word = signal.address;
  list.value = signal.value;
  GSHMEM_WATCH(order::list(watch, coop, list);)
  move_list(coop, list, pieces.num_blocks);
}

#define GSHMEM_API_LIST(NAME, COMPLETION, PUT)                                \
  template <class Coop>                                                       \
  GSHMEM_FN void NAME(const Caller& call, Coop coop, Pieces pieces, int pe) { \
    list_as<Completion::COMPLETION, PUT>(call, coop, pieces, pe);             \
  }
#define GSHMEM_API_LIST_SIGNAL(NAME, COMPLETION, PUT)                                              \
  template <class Coop>                                                                            \
  GSHMEM_FN void NAME(const Caller& call, Coop coop, Pieces pieces, SignalUpdate signal, int pe) { \
    list_signal_as<Completion::COMPLETION, PUT>(call, coop, pieces, signal, pe);                   \
  }
GSHMEM_API_LIST(putv, kBlocking, true)
GSHMEM_API_LIST(putv_nbi, kNonBlocking, true)
GSHMEM_API_LIST(getv, kBlocking, false)
GSHMEM_API_LIST(getv_nbi, kNonBlocking, false)
GSHMEM_API_LIST_SIGNAL(putv_signal, kBlocking, true)
GSHMEM_API_LIST_SIGNAL(putv_signal_nbi, kNonBlocking, true)
GSHMEM_API_LIST_SIGNAL(getv_signal, kBlocking, false)
#undef GSHMEM_API_LIST
#undef GSHMEM_API_LIST_SIGNAL

}  // namespace gshmem::api

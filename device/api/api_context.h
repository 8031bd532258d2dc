// The API layer of contexts and queue handles: the function for a handle is that of
// device/api/api.h, called with the state of the handle. Included by gshmem.h, whose functions are
// made by include/gshmem/functions.def.
#pragma once

#include "api.h"
#include "api_pieces.h"
#include "../pe/context.h"
#include "lock.h"
#include "../pe/call_hints.h"

namespace gshmem::api {

/// Returns the caller of a function on context `handle`, which is its argument `argument`. Valid
/// only if usable().
GSHMEM_FN Caller context_caller(const char* name, const char* argument, int handle) {
  const State& own = ambient_state(name);
  const State* state = find_context(own, name, argument, handle);
  if (kChecks && !state) return {own, nullptr};
  return {*state, name};
}
/// Returns the caller of a function that names PE `pe` by its number in the context's team; `pe`
/// becomes its number in the job.
GSHMEM_FN Caller context_caller(const char* name, const char* argument, int handle, int& pe) {
  const State& own = ambient_state(name);
  const Target target = find_target(own, name, argument, handle, pe);
  if (kChecks && !target.state) return {own, nullptr};
  pe = target.pe;
  return {*target.state, name};
}
/// Was the handle valid? If not, a fault is recorded, and the call returns nothing<Result>().
GSHMEM_FN bool usable(const Caller& call) { return !kChecks || call.name != nullptr; }
template <class Result>
GSHMEM_FN Result nothing() {
  return Result();
}

}  // namespace gshmem::api

// Defines the Caller of a function NAME that returns RET, as `call`, by the kind of the function.
#define GSHMEM_CALLER_STD(NAME, RET) \
  ::gshmem::api::Caller call = ::gshmem::api::ambient_caller(GSHMEM_TEXT(NAME))
#define GSHMEM_CALLER_SHM(NAME, RET) GSHMEM_CALLER_STD(NAME, RET)
#define GSHMEM_CALLER_EXT(NAME, RET) GSHMEM_CALLER_STD(NAME, RET)
#define GSHMEM_CALLER_OWN(NAME, RET) GSHMEM_CALLER_STD(NAME, RET)
#define GSHMEM_CALLER_HANDLE(NAME, RET, ...)                                                  \
  ::gshmem::api::Caller call = ::gshmem::api::context_caller(GSHMEM_TEXT(NAME), __VA_ARGS__); \
  if (!::gshmem::api::usable(call)) return ::gshmem::api::nothing<RET>()
#define GSHMEM_CALLER_CTX_STD(NAME, RET) GSHMEM_CALLER_HANDLE(NAME, RET, "ctx", ctx, pe)
#define GSHMEM_CALLER_CTX_EXT(NAME, RET) GSHMEM_CALLER_HANDLE(NAME, RET, "ctx", ctx, pe)
// On an invalid context a fence and a quiet do nothing (OpenSHMEM 1.5, sections 9.12.1 and 9.12.2).
#define GSHMEM_CALLER_CTX_ALL(NAME, RET)                               \
  if (ctx == GSHMEM_CTX_INVALID) return ::gshmem::api::nothing<RET>(); \
  GSHMEM_CALLER_HANDLE(NAME, RET, "ctx", ctx)
#define GSHMEM_CALLER_QP(NAME, RET) GSHMEM_CALLER_HANDLE(NAME, RET, "qp", qp)
// Defines the function of a row of functions.def for nvcc, under the name NAME.
#define GSHMEM_DEVICE_FUNCTION(NAME, KIND, RET, STEM, PARAMS, CALL)     \
  GSHMEM_WHEN_CALLED GSHMEM_FN RET NAME GSHMEM_PARAMS_AND_SITE PARAMS { \
    GSHMEM_FIT_FUNCTION(NAME);                                          \
    GSHMEM_CALLER_##KIND(GSHMEM_NAME_##KIND(STEM), RET);                \
    GSHMEM_KEEP_SITE(call);                                             \
    return ::gshmem::api::CALL;                                         \
  }
#if defined(GSHMEM_WATCH_ON)
// Parameters that are "void" have nothing after this word, so that the "()" calls a macro.
#define GSHMEM_PARAMS_AND_SITE(...)                                                        \
  GSHMEM_SITE_PASTE(GSHMEM_SITE_AFTER_, GSHMEM_IS_VOID(GSHMEM_SITE_FIRST(__VA_ARGS__, ~))) \
  (__VA_ARGS__)
#define GSHMEM_SITE_AFTER_0(...) (__VA_ARGS__ GSHMEM_SITE)
#define GSHMEM_SITE_AFTER_1(...) (GSHMEM_ONLY_SITE)
#define GSHMEM_SITE_FIRST(FIRST, ...) FIRST
#define GSHMEM_SITE_SECOND(FIRST, SECOND, ...) SECOND
#define GSHMEM_IS_VOID(FIRST) GSHMEM_IS_VOID_(GSHMEM_SITE_PASTE(GSHMEM_VOID_, FIRST)(), 0, ~)
#define GSHMEM_IS_VOID_(...) GSHMEM_SITE_SECOND(__VA_ARGS__)
#define GSHMEM_VOID_void() ~, 1
#define GSHMEM_SITE_PASTE(A, B) GSHMEM_SITE_PASTE_(A, B)
#define GSHMEM_SITE_PASTE_(A, B) A##B
#define GSHMEM_KEEP_SITE(CALL) CALL.file = gshmem_file, CALL.line = gshmem_line
#else
#define GSHMEM_PARAMS_AND_SITE(...) (__VA_ARGS__)
#define GSHMEM_KEEP_SITE(CALL)
#endif

namespace gshmem::api {

/// The contexts that a fence or quiet of handles covers.
struct Handles {
  const int* qps;
  int count;
  GSHMEM_FN bool good(const State& state, const char* call) const {
    if (count < 0)
      return bad_argument(state, call, "num_qps", abi::Rule::kNotNegative, as_value(count));
    return Local{entries("qps", qps, static_cast<std::size_t>(count))}.good(state, call);
  }
};
/// One PE; -1: all PEs.
struct ToPes {
  int pe;
  GSHMEM_FN bool good(const State& state, const char* call) const {
    return pe == GSHMEMX_PE_ALL || ToPe{pe}.good(state, call);
  }
};

/// The queues of a state to `pe`, or to all PEs. An initiator is a queue to all PEs.
struct QueueRange {
  std::uint32_t first, end;
};
GSHMEM_FN QueueRange queues_to(const State& state, int pe) {
  if (pe == GSHMEMX_PE_ALL || is_dynamic(state.nic.traits)) return {0, state.nic.count};
  const std::uint32_t first = static_cast<std::uint32_t>(pe) * state.nic.per_pe;
  return {first, first + state.nic.per_pe};
}

// quiet of queues has two steps, between which the group synchronizes, once for all states. The
// threads of the group divide the queues of each. A step makes no call that the group must make
// together. So it is correct for a table that changes: a thread may see a handle that others do
// not.

/// The first step posts the flushes (see flush_rails).
template <class Coop>
GSHMEM_OUTLINE void flush_queues(Coop coop, const State& state, const char* call, int pe) {
  if (!state.nic.queues || !(state.nic.flags & abi::kNicFlush)) return;
  Wait wait;
  begin_wait(wait, &state, nullptr, call);
  const QueueRange range = queues_to(state, pe);
  device::nic::post_flushes(coop, wait, range.first, range.end);
  post_report(wait);
}
/// Waits until everything that was posted is complete.
template <class Coop>
GSHMEM_OUTLINE void await_queues(Coop coop, const State& state, const char* call, int pe) {
  if (!state.nic.queues) return;
  const QueueRange range = queues_to(state, pe);
  Wait wait;
  begin_wait(wait, &state, nullptr, call);
  device::nic::await_published(coop, wait, range.first, range.end);
  post_report(wait);
}

template <class Coop>
GSHMEM_FN void pe_quiet(const Caller& call, Coop coop, int pe) {
  if (!check_arguments(call.state, call.name, ToPe{pe})) return;
  GSHMEM_BY_HOST_OPS(void, Call::quiet(call.name, &call.state))
  GSHMEM_ORDER_CALL(order::by_group(coop, [&] { checker->quiet(call.state, pe); });)
  coop.sync();
  fence_complete_system();
  flush_queues(coop, call.state, call.name, pe);
  coop.sync();
  await_queues(coop, call.state, call.name, pe);
  coop.sync();
}

/// A list of PEs for `call`.
struct Pes {
  const int* list;
  std::size_t count;
  GSHMEM_FN bool good(const State& state, const char* call) const {
    const Elements n{count, sizeof(int)};
    if (n.count > n.most())
      return bad_argument(state, call, "npes", abi::Rule::kOverflow, n.count, n.most());
    if (!Local{{"target_pes", list, n, sizeof(int)}}.good(state, call)) return false;
    for (std::size_t i = 0; i < count; ++i) {
      if (list[i] < 0 || list[i] >= state.n_pes)
        return bad_argument(state, call, "target_pes", abi::Rule::kPe, as_value(list[i]),
                            as_value(static_cast<int>(state.n_pes)));
    }
    return true;
  }
};
GSHMEM_FN void pes_quiet(const Caller& call, Pes pes) {
  if (!check_arguments(call.state, call.name, pes)) return;
  GSHMEM_NO_UNROLL
  for (std::size_t i = 0; i < pes.count; ++i) pe_quiet(call, Thread{}, pes.list[i]);
}

/// `ctx` is the context that numbers the PEs.
GSHMEM_FN void ctx_pes_quiet(const Caller& call, int ctx, Pes pes) {
  if (!check_arguments(call.state, call.name, pes)) return;
  GSHMEM_NO_UNROLL
  for (std::size_t i = 0; i < pes.count; ++i) {
    const Target target = find_target(call.state, call.name, "ctx", ctx, pes.list[i]);
    if (kChecks && !target.state) return;
    pe_quiet(call, Thread{}, target.pe);
  }
}

/// Calls `work` with the state of every open handle, including the PE's own.
template <class Work>
GSHMEM_FN void for_each_context(const State& state, const Work& work) {
  work(state);
  const abi::ContextEntry* entries = context_entries(state);
  for (std::uint32_t i = 0; i < abi::kMaxContexts && context_of(entries[i]); ++i) {
    if (load_relaxed(&entries[i].handle) != 0) work(*context_of(entries[i]));
  }
}

/// Calls `work` with the state of each of `handles` that is valid.
template <class Work>
GSHMEM_FN void for_each_handle(const Caller& call, Handles handles, const Work& work) {
  for (int i = 0; i < handles.count; ++i) {
    if (handles.qps[i] == GSHMEMX_QP_ALL) {
      for_each_context(call.state, work);
      continue;
    }
    const State* state = find_context(call.state, call.name, "qp", handles.qps[i]);
    if (kChecks && !state) return;
    work(*state);
  }
}

template <class Coop>
GSHMEM_FN void qp_quiet(const Caller& call, Coop coop, int pe, Handles handles) {
  if (!check_arguments(call.state, call.name, ToPes{pe}, handles)) return;
  GSHMEM_ON_HOST_OPS({
    for_each_handle(call, handles,
                    [&](const State& state) { (void)ops->run(Call::quiet(call.name, &state)); });
    return;
  })
  GSHMEM_ORDER_CALL(order::by_group(coop, [&] {
                      for_each_handle(call, handles, [&](const State& state) {
                        checker->quiet(state, pe == GSHMEMX_PE_ALL ? -1 : pe);
                      });
                    });)
  coop.sync();
  fence_complete_system();
  for_each_handle(call, handles,
                  [&](const State& state) { flush_queues(coop, state, call.name, pe); });
  coop.sync();
  for_each_handle(call, handles,
                  [&](const State& state) { await_queues(coop, state, call.name, pe); });
  coop.sync();
}
/// Does what fence does on the PE's own queues: nothing weaker orders them (device/ops/order.h).
template <class Coop>
GSHMEM_FN void qp_fence(const Caller& call, Coop coop, int pe, Handles handles) {
  qp_quiet(call, coop, pe, handles);
}

}  // namespace gshmem::api

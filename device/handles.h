// The API layer of contexts and queue handles: the function that a handle is passed to is that of
// device/api.h, called with the state behind the handle. Included by gshmem.h, whose functions are
// made by include/gshmem/functions.def.
#pragma once

#include "api.h"
#include "context.h"

namespace gshmem::api {

/// Caller of a function on context `handle`, the argument `argument`. Only if usable().
GSHMEM_FN Caller context_caller(const char* name, const char* argument, int handle) {
  const State& own = ambient_state(name);
  const State* state = find_context(own, name, argument, handle);
  if (kChecks && !state) return {own, nullptr};
  return {*state, name};
}
/// The handle was one. Else the fault is on record, and the call returns nothing<Result>().
GSHMEM_FN bool usable(const Caller& call) { return !kChecks || call.name != nullptr; }
template <class Result>
GSHMEM_FN Result nothing() {
  return Result();
}

}  // namespace gshmem::api

// The Caller of a function NAME that returns RET, as `call`, by the kind of the function.
#define GSHMEM_CALLER_STD(NAME, RET) \
  const ::gshmem::api::Caller call = ::gshmem::api::ambient_caller(GSHMEM_TEXT(NAME))
#define GSHMEM_CALLER_EXT(NAME, RET) GSHMEM_CALLER_STD(NAME, RET)
#define GSHMEM_CALLER_OWN(NAME, RET) GSHMEM_CALLER_STD(NAME, RET)
#define GSHMEM_CALLER_HANDLE(NAME, RET, HANDLE)                                      \
  const ::gshmem::api::Caller call =                                                 \
      ::gshmem::api::context_caller(GSHMEM_TEXT(NAME), GSHMEM_TEXT(HANDLE), HANDLE); \
  if (!::gshmem::api::usable(call)) return ::gshmem::api::nothing<RET>()
#define GSHMEM_CALLER_CTX_STD(NAME, RET) GSHMEM_CALLER_HANDLE(NAME, RET, ctx)
#define GSHMEM_CALLER_CTX_EXT(NAME, RET) GSHMEM_CALLER_HANDLE(NAME, RET, ctx)
#define GSHMEM_CALLER_QP(NAME, RET) GSHMEM_CALLER_HANDLE(NAME, RET, qp)

namespace gshmem::api {

/// What a fence or quiet of handles is about.
struct Handles {
  const int* qps;
  int count;
};

GSHMEM_FN bool check_handles(const State& state, const char* call, int pe, Handles handles) {
  if (!kChecks) return true;
  if (pe != GSHMEMX_PE_ALL && !check_pe(state, call, pe)) return false;
  if (handles.count >= 0 && (handles.count == 0 || handles.qps)) return true;
  fault(state, {GSHMEMX_ERROR_INVALID_VALUE, call, "num_qps",
                static_cast<std::uint64_t>(static_cast<std::int64_t>(handles.count))});
  return false;
}

/// What was posted to `pe`, or to all PEs, is complete. Threads of the group share the queues.
template <class Coop>
GSHMEM_OUTLINE void quiet_queues(Coop coop, const State& state, const char* call, int pe) {
  if (!state.nic.queues) return;
  if (pe == GSHMEMX_PE_ALL) {
    nic::quiet(coop, state, call);
    return;
  }
  const std::uint32_t per_pe = state.nic.per_pe;
  if (state.nic.flags & abi::kNicFlush) {
    Wait wait;
    wait.state = &state;
    wait.call = call;
    const std::uint32_t first = static_cast<std::uint32_t>(pe) * per_pe;
    nic::flush_rails(coop, wait, first, first + per_pe);
    if (!post_report(wait)) return;
  }
  for (std::uint32_t i = static_cast<std::uint32_t>(coop.thread_rank()); i < per_pe;
       i += static_cast<std::uint32_t>(coop.size())) {
    const std::uint32_t at = static_cast<std::uint32_t>(pe) * per_pe + i;
    if (!queue_quiet(state, Queue(state.nic.queues + at), call)) return;
  }
}

/// Calls `work` with the state of every open handle, the PE's own included.
template <class Work>
GSHMEM_FN void for_each_context(const State& state, const Work& work) {
  work(state);
  const abi::ContextEntry* entries = context_entries(state);
  for (std::uint32_t i = 0; i < abi::kMaxContexts && context_of(entries[i]); ++i) {
    if (load_relaxed(&entries[i].handle) != 0) work(*context_of(entries[i]));
  }
}

/// Calls `work` with the state of each of `handles`, as far as they are good.
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
  if (!check_handles(call.state, call.name, pe, handles)) return;
  GSHMEM_ON_HOST_OPS({
    for_each_handle(call, handles, [&](const State& state) { ops->complete(state); });
    return;
  })
  coop.sync();
  fence_system();
  for_each_handle(call, handles,
                  [&](const State& state) { quiet_queues(coop, state, call.name, pe); });
  coop.sync();
}
/// As fence on the PE's own queues: nothing less orders them (device/order.h).
template <class Coop>
GSHMEM_FN void qp_fence(const Caller& call, Coop coop, int pe, Handles handles) {
  qp_quiet(call, coop, pe, handles);
}

}  // namespace gshmem::api

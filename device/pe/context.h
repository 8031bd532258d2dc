// Contexts and queue handles (OpenSHMEM 1.5, section 9.5). A context is the PE's state with other
// queues: every function that takes a State works on it, including quiet and fence of its queues.
// The functions here turn a handle into that state. The host makes the table
// (host/runtime/context_table.h).
#pragma once

#include <gshmem/constants.h>

#include "check.h"
#include "../core/machine.h"
#include "../core/order_check.h"
#include "team.h"

namespace gshmem::device {

/// Is it a handle that means the PE's own state?
GSHMEM_FN bool is_default_context(int handle) {
  return handle == GSHMEM_CTX_DEFAULT || handle == GSHMEMX_QP_HOST || handle == GSHMEMX_QP_ANY;
}

/// Returns the entries of all contexts, at an address that the calling thread can read.
GSHMEM_FN const abi::ContextEntry* context_entries(const State& state) {
#if defined(__CUDA_ARCH__)
  return state.contexts;
#else
  return state.host_contexts;
#endif
}
GSHMEM_FN const State* context_of(const abi::ContextEntry& entry) {
  const auto* const word = reinterpret_cast<const std::uintptr_t*>(&entry.state);
#if defined(GSHMEM_ORDER_ON)  // ThreadSanitizer does not see that what is at an address comes later
  return reinterpret_cast<const State*>(load_acquire(word));
#else
  return reinterpret_cast<const State*>(load_relaxed(word));
#endif
}

/// Returns the state for `handle`, which is argument `argument` of the call. Null, if checks are
/// on, for a destroyed or invalid handle; that is a fault, and the call has no effect. It is also
/// out of line because nvcc 13.0 fails on a choice between a __grid_constant__ state and another
/// one ("PHI node has multiple entries", tests/spmd/context.cpp).
GSHMEM_OUTLINE const State* find_context(const State& state, const char* call, const char* argument,
                                         int handle) {
  if (is_default_context(handle)) return &state;
  const std::uint32_t wanted = static_cast<std::uint32_t>(handle);
  const abi::ContextEntry& entry = context_entries(state)[wanted & (abi::kMaxContexts - 1)];
  if (kChecks && load_relaxed(&entry.handle) != wanted) {
    (void)bad_argument(state, call, argument, abi::Rule::kHandle, as_value(handle));
    return nullptr;
  }
  return context_of(entry);
}

/// A state, and a PE by its number in the job. For a null state see find_context.
struct Target {
  const State* state;
  int pe;
};
/// The target for a context of a team, with entry `entry`.
GSHMEM_FN Target team_target(const State& state, const char* call, const abi::ContextEntry& entry,
                             int pe) {
  const abi::Team* team = team_entries(state) + team_index(entry.team);
  if constexpr (kChecks) {
    team = find_team(state, call, "team of ctx", static_cast<int>(entry.team));
    if (!team) return {nullptr, pe};
    if (pe < 0 || pe >= team->n_pes) {
      (void)bad_argument(state, call, "pe", abi::Rule::kPe, as_value(pe), as_value(team->n_pes));
      return {nullptr, pe};
    }
  }
  return {context_of(entry), team_pe(*team, pe)};
}
/// Returns the state for `handle`, and the PE with number `pe` in the context's team, or in the
/// job. One comparison distinguishes contexts of all PEs from the rest. Without checks it calls no
/// function, and so needs no stack.
GSHMEM_OUTLINE Target find_target(const State& state, const char* call, const char* argument,
                                  int handle, int pe) {
  const std::uint32_t wanted = static_cast<std::uint32_t>(handle);
  const abi::ContextEntry& entry = context_entries(state)[wanted & (abi::kMaxContexts - 1)];
  const bool usual = wanted - abi::kFirstContext < abi::kTeamContext - abi::kFirstContext;
  if (!usual && is_default_context(handle)) return {&state, pe};
  if (kChecks && load_relaxed(&entry.handle) != wanted) {
    (void)bad_argument(state, call, argument, abi::Rule::kHandle, as_value(handle));
    return {nullptr, pe};
  }
  if (!usual) return team_target(state, call, entry, pe);
  return {context_of(entry), pe};
}

}  // namespace gshmem::device

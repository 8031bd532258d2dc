// Teams (OpenSHMEM 1.5, section 9.4): turns a handle into the team's entry in the table of the
// state, and numbers of members into numbers of PEs. The host makes the table
// (host/runtime/teams.h).
#pragma once

#include <gshmem/constants.h>

#include "check.h"
#include "../core/machine.h"

namespace gshmem::device {

/// The number of the calling PE in a team, and the team's size.
struct TeamPosition {
  int my_pe, n_pes;
};

/// Returns the entries of all teams, at an address that the calling thread can read.
GSHMEM_FN const abi::Team* team_entries(const State& state) {
#if defined(__CUDA_ARCH__)
  return state.teams;
#else
  return state.host_teams;
#endif
}
GSHMEM_FN std::uint32_t team_index(std::uint32_t handle) {
  return handle & ((1u << abi::kTeamIndexBits) - 1);
}

/// Is team `number`, whose handle is its index, one of State::all_pes?
GSHMEM_FN bool has_all_pes(std::uint32_t all_pes, std::uint32_t number) {
  return number < 31 && (all_pes >> number & 1) != 0;
}

/// Reports a call that does nothing because its team is GSHMEM_TEAM_INVALID: host threads log it.
GSHMEM_FN void report_no_team([[maybe_unused]] const char* call,
                              [[maybe_unused]] const char* argument) {
#if !defined(__CUDA_ARCH__)
  if (HostChecks* checks = gshmemi_ambient()->checks) checks->report_no_team(call, argument);
#endif
}

/// Returns the entry of `team`, which is argument `argument` of the call. Returns null, and reports
/// a fault, for a handle that names no team of this PE. For GSHMEM_TEAM_INVALID, which is a valid
/// result of other calls, it only returns null.
GSHMEM_OUTLINE const abi::Team* find_team(const State& state, const char* call,
                                          const char* argument, int team) {
  const std::uint32_t handle = static_cast<std::uint32_t>(team), index = team_index(handle);
  if (team >= 0 && index < state.n_teams) {
    const abi::Team* entry = team_entries(state) + index;
    // Predefined teams never change: nothing has to be loaded from memory for them.
    if (handle <= GSHMEMX_TEAM_SAME_MYPE_NODE || load_relaxed(&entry->handle) == handle)
      return entry;
  }
  if (team == GSHMEM_TEAM_INVALID) {
    report_no_team(call, argument);
  } else {
    (void)bad_argument(state, call, argument, abi::Rule::kTeam, as_value(team));
  }
  return nullptr;
}

/// For calls that only query. It does what find_team does, but GSHMEM_TEAM_INVALID is not logged,
/// and a predefined team of NVSHMEM that does not exist here is no fault. Programs ask whether it
/// exists.
GSHMEM_FN const abi::Team* ask_team(const State& state, const char* call, const char* argument,
                                    int team) {
  const bool is_none = team > GSHMEMX_TEAM_SAME_MYPE_NODE && team < abi::kNvshmemTeams;
  return is_none || team == GSHMEM_TEAM_INVALID ? nullptr : find_team(state, call, argument, team);
}

/// Returns -1 and -1 for an invalid team, as the specification requires.
GSHMEM_FN TeamPosition team_position(const State& state, const char* call, int team) {
  if (team == GSHMEM_TEAM_WORLD) return {state.my_pe, state.n_pes};
  const abi::Team* entry = ask_team(state, call, "team", team);
  if (!entry) return {-1, -1};
  return {entry->my_pe, entry->n_pes};
}

/// Returns the PE of member `i`, in range.
GSHMEM_FN int team_pe(const abi::Team& team, int i) {
  const int at = team.start + i * team.stride;
  return team.members ? team.members[at] : at;
}
/// Returns the member number of PE `pe`; -1 = not a member.
GSHMEM_FN int team_number(const abi::Team& team, int pe) {
  if (team.members) {
    GSHMEM_NO_UNROLL
    for (int i = 0; i < team.n_pes; ++i) {
      if (team_pe(team, i) == pe) return i;
    }
    return -1;
  }
  const int distance = pe - team.start;
  if (distance == 0) return 0;
  if (team.stride == 0 || distance % team.stride != 0) return -1;
  const int i = distance / team.stride;
  return i >= 0 && i < team.n_pes ? i : -1;
}

/// Returns -1 if a team is invalid, or the PE is not a member of both.
GSHMEM_OUTLINE int team_translate(const State& state, const char* call, int src_team, int src_pe,
                                  int dest_team) {
  const abi::Team* src = ask_team(state, call, "src_team", src_team);
  const abi::Team* dest = ask_team(state, call, "dest_team", dest_team);
  if (!src || !dest || src_pe < 0 || src_pe >= src->n_pes) return -1;
  return team_number(*dest, team_pe(*src, src_pe));
}

}  // namespace gshmem::device

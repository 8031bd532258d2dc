// The predefined teams (OpenSHMEM 1.5, section 9.4), from where the PE stands in the job and whose
// memory it reaches.
#pragma once

#include <gshmem/constants.h>

#include "check.h"
#include "machine.h"

namespace gshmem::device {

/// Number of the calling PE in `team` and the team's size.
struct TeamPlace {
  int my_pe, n_pes;
};

/// Among the PEs whose heaps are mapped, in PE order. Where not even the own heap counts as mapped
/// (GSHMEM_P2P=0), the PE shares memory with itself.
GSHMEM_FN TeamPlace shared_place(const State& state) {
  if (state.mapped_count <= 1) return {0, 1};
  if (!state.slots) return {state.my_pe - state.mapped_first, state.mapped_count};
  int before = 0;
  for (int pe = 0; pe < state.my_pe; ++pe) before += state.slots[pe] >= 0 ? 1 : 0;
  return {before, state.mapped_count};
}

/// -1 and -1 for GSHMEM_TEAM_INVALID, as the specification wants; the same and a fault for a handle
/// that names no team.
GSHMEM_FN TeamPlace team_place(const State& state, const char* call, int team) {
  switch (team) {
    case GSHMEM_TEAM_WORLD:
      return {state.my_pe, state.n_pes};
    case GSHMEM_TEAM_SHARED:
      return shared_place(state);
    case GSHMEMX_TEAM_NODE:
      return {state.place.node_rank, state.place.node_size};
    case GSHMEMX_TEAM_SAME_MYPE_NODE:
      return {state.place.node, state.place.n_nodes};
    case GSHMEM_TEAM_INVALID:
      break;
    default:
      (void)bad_argument(state, call, "team", abi::Rule::kTeam, as_value(team));
  }
  return {-1, -1};
}

}  // namespace gshmem::device

// The predefined teams (OpenSHMEM 1.5, section 9.4). All PEs of a job are on one host and reach
// each other by load and store, so three of the teams are the world, and the PEs with equal number
// in their host's team are the calling PE alone.
#pragma once

#include <gshmem/constants.h>

#include "fault.h"
#include "machine.h"

namespace gshmem::device {

/// Number of the calling PE in `team` and the team's size.
struct TeamPlace {
  int my_pe, n_pes;
};

/// -1 and -1 for GSHMEM_TEAM_INVALID, as the specification wants; the same and a fault for a handle
/// that names no team.
GSHMEM_FN TeamPlace team_place(const State& state, const char* call, int team) {
  switch (team) {
    case GSHMEM_TEAM_WORLD:
    case GSHMEM_TEAM_SHARED:
    case GSHMEMX_TEAM_NODE:
      return {state.my_pe, state.n_pes};
    case GSHMEMX_TEAM_SAME_MYPE_NODE:
      return {0, 1};
    case GSHMEM_TEAM_INVALID:
      break;
    default:
      fault(state, {GSHMEMX_ERROR_INVALID_VALUE, call, "team", static_cast<std::uint64_t>(team),
                    GSHMEMX_TEAM_SAME_MYPE_NODE});
  }
  return {-1, -1};
}

}  // namespace gshmem::device

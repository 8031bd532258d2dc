// Teams of a test: every shape that a PE is in. Included by the tests of teams and collectives.
#pragma once

#include "tests/spmd/spmd.h"

#include <utility>
#include <vector>

namespace gshmem::spmd {

using Pes = std::vector<int>;

/// A team that this PE is in, and goes with the object unless it is predefined.
class OwnTeam {
 public:
  explicit OwnTeam(gshmem_team_t team) : team_(team) {}
  OwnTeam(OwnTeam&& other) noexcept : team_(std::exchange(other.team_, GSHMEM_TEAM_INVALID)) {}
  ~OwnTeam() {
    if (team_ > GSHMEMX_TEAM_SAME_MYPE_NODE) gshmem_team_destroy(team_);
  }
  [[nodiscard]] gshmem_team_t get() const { return team_; }

 private:
  gshmem_team_t team_;
};

inline OwnTeam split(Pe& pe, gshmem_team_t parent, int start, int stride, int size) {
  gshmem_team_t team = 77;
  SPMD_EQ(pe, gshmem_team_split_strided(parent, start, stride, size, nullptr, 0, &team), 0);
  return OwnTeam(team);
}

inline Pes members(gshmem_team_t team) {
  Pes pes;
  for (int i = 0; i < gshmem_team_n_pes(team); ++i) {
    pes.push_back(gshmem_team_translate_pe(team, i, GSHMEM_TEAM_WORLD));
  }
  return pes;
}

/// Teams of every shape that have this PE, some of them with others in common.
inline std::vector<OwnTeam> teams_of(Pe& pe) {
  std::vector<OwnTeam> teams;
  for (const gshmem_team_t team :
       {GSHMEM_TEAM_WORLD, GSHMEM_TEAM_SHARED, GSHMEMX_TEAM_NODE, GSHMEMX_TEAM_SAME_MYPE_NODE}) {
    teams.emplace_back(team);
  }
  const int n = pe.n();
  teams.push_back(split(pe, GSHMEM_TEAM_WORLD, 0, 1, n));
  teams.push_back(split(pe, GSHMEM_TEAM_WORLD, n - 1, -1, n));
  teams.push_back(split(pe, GSHMEM_TEAM_WORLD, 0, 2, (n + 1) / 2));
  if (n > 1) teams.push_back(split(pe, GSHMEM_TEAM_WORLD, 1, 1, n - 1));
  gshmem_team_t x = 77, y = 77;
  SPMD_EQ(pe, gshmem_team_split_2d(GSHMEM_TEAM_WORLD, 2, nullptr, 0, &x, nullptr, 0, &y), 0);
  teams.emplace_back(x);
  teams.emplace_back(y);
  return teams;
}

}  // namespace gshmem::spmd

// The teams of a test, of every shape. Included by the tests of teams and collectives.
#pragma once

#include "tests/spmd/spmd.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace gshmem::spmd {

using Pes = std::vector<int>;

/// A team that this PE is in; it is destroyed with the object unless it is predefined.
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

/// Joins a team by `id` and returns the status.
inline int join(gshmem_team_t& team, gshmemx_team_uniqueid_t id, int size, int index) {
  gshmem_team_config_t config = GSHMEM_TEAM_CONFIG_INITIALIZER;
  config.uniqueid = id;
  return gshmemx_team_init(&team, &config, GSHMEMX_TEAM_UNIQUEID, size, index);
}

/// Makes an id on PE `root`, and returns it on all PEs. Collective.
inline gshmemx_team_uniqueid_t share_id(Pe& pe, int root) {
  SymmetricArray<std::uint64_t> shared(1);
  if (pe.me() == root) {
    gshmemx_team_uniqueid_t id = 0;
    SPMD_EQ(pe, gshmemx_team_get_uniqueid(&id), 0);
    for (int to = 0; to < pe.n(); ++to) gshmem_uint64_p(shared.data(), id, to);
    gshmem_quiet();
  }
  pe.barrier();
  const gshmemx_team_uniqueid_t id = gshmem_uint64_g(shared.data(), pe.me());
  pe.barrier();
  return id;
}

/// Makes a team of `pes` in that order, by an id of PE `root`. Collective over all PEs.
inline OwnTeam team_of(Pe& pe, const Pes& pes, int root) {
  const gshmemx_team_uniqueid_t id = share_id(pe, root);
  gshmem_team_t team = GSHMEM_TEAM_INVALID;
  const auto mine = std::find(pes.begin(), pes.end(), pe.me());
  if (mine != pes.end()) {
    const int index = static_cast<int>(mine - pes.begin());
    SPMD_EQ(pe, join(team, id, static_cast<int>(pes.size()), index), 0);
  }
  return OwnTeam(team);
}

inline Pes members(gshmem_team_t team) {
  Pes pes;
  for (int i = 0; i < gshmem_team_n_pes(team); ++i) {
    pes.push_back(gshmem_team_translate_pe(team, i, GSHMEM_TEAM_WORLD));
  }
  return pes;
}

/// Makes teams of every shape that include this PE, some of them with other members in common.
inline std::vector<OwnTeam> teams_of(Pe& pe) {
  std::vector<OwnTeam> teams;
  for (const gshmem_team_t team :
       {GSHMEM_TEAM_WORLD, GSHMEM_TEAM_SHARED, GSHMEMX_TEAM_NODE, GSHMEMX_TEAM_SAME_MYPE_NODE}) {
    teams.emplace_back(team);
  }
  const int n = pe.n();
  Pes turned(static_cast<std::size_t>(n));
  std::iota(turned.begin(), turned.end(), 0);
  std::rotate(turned.begin(), turned.begin() + n / 2, turned.end());
  teams.push_back(team_of(pe, turned, n - 1));
  if (n > 3 && n % 2 == 0) {  // from both halves alternately
    Pes dealt;
    for (int i = 0; i < n; ++i) dealt.push_back(i % 2 * (n / 2) + i / 2);
    teams.push_back(team_of(pe, dealt, 0));
  }
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

#include <gshmem/gshmem.h>

#include "host/runtime/api/edge.h"

using namespace gshmem;

extern "C" {

int gshmem_team_split_strided(gshmem_team_t parent_team, int start, int stride, int size,
                              const gshmem_team_config_t* config, long config_mask,
                              gshmem_team_t* new_team) {
  if (new_team) *new_team = GSHMEM_TEAM_INVALID;
  return guard_status([&] {
    constexpr const char* kCall = "gshmem_team_split_strided";
    const gshmem_team_t made = require_pe(kCall).split_strided(
        kCall, parent_team, {start, stride, size, {}}, {"config", config, config_mask}, new_team);
    *new_team = made;
  });
}

int gshmem_team_split_2d(gshmem_team_t parent_team, int xrange,
                         const gshmem_team_config_t* xaxis_config, long xaxis_mask,
                         gshmem_team_t* xaxis_team, const gshmem_team_config_t* yaxis_config,
                         long yaxis_mask, gshmem_team_t* yaxis_team) {
  if (xaxis_team) *xaxis_team = GSHMEM_TEAM_INVALID;
  if (yaxis_team) *yaxis_team = GSHMEM_TEAM_INVALID;
  return guard_status([&] {
    constexpr const char* kCall = "gshmem_team_split_2d";
    const Pe::AxisTeams made = require_pe(kCall).split_2d(
        kCall, parent_team, xrange, {"xaxis_config", xaxis_config, xaxis_mask},
        {"yaxis_config", yaxis_config, yaxis_mask}, xaxis_team && yaxis_team);
    *xaxis_team = made.x;
    *yaxis_team = made.y;
  });
}

int gshmemx_team_get_uniqueid(gshmemx_team_uniqueid_t* uniqueid) {
  return guard_status([&] {
    constexpr const char* kCall = "gshmemx_team_get_uniqueid";
    Pe& pe = require_pe(kCall);
    require_not_null(kCall, "uniqueid", uniqueid);
    *uniqueid = pe.make_team_id();
  });
}

int gshmemx_team_init(gshmem_team_t* team, gshmem_team_config_t* config, long config_mask, int npes,
                      int pe_idx_in_team) {
  if (team) *team = GSHMEM_TEAM_INVALID;
  return guard_status([&] {
    constexpr const char* kCall = "gshmemx_team_init";
    const gshmem_team_t made = require_pe(kCall).join_team(kCall, {"config", config, config_mask},
                                                           npes, pe_idx_in_team, team);
    *team = made;
  });
}

int gshmem_team_get_config(gshmem_team_t team, long config_mask, gshmem_team_config_t* config) {
  return guard_status([&] {
    constexpr const char* kCall = "gshmem_team_get_config";
    Teams& teams = require_pe(kCall).teams();
    const gshmem_team_config_t known = teams.config(teams.require(kCall, "team", team));
    require_not_null(kCall, "config", config);
    const std::string wrong = Pe::TeamConfig{"config", config, config_mask}.complaint(kCall);
    require(wrong.empty(), GSHMEMX_ERROR_INVALID_VALUE, wrong);
    if ((config_mask & GSHMEM_TEAM_NUM_CONTEXTS) != 0) config->num_contexts = known.num_contexts;
    if ((config_mask & GSHMEMX_TEAM_UNIQUEID) != 0) config->uniqueid = known.uniqueid;
  });
}

void gshmem_team_destroy(gshmem_team_t team) {
  if (team == GSHMEM_TEAM_INVALID) return;
  guard_release("gshmem_team_destroy", [&](Pe& pe) {
    constexpr const char* kCall = "gshmem_team_destroy";
    pe.teams().destroy(kCall, pe.teams().require(kCall, "team", team));
  });
}

}  // extern "C"

// The teams of a PE: the calls that create them.
#include "host/runtime/pe.h"

#include <algorithm>

namespace gshmem {
namespace {

constexpr long kKnownMask = GSHMEM_TEAM_NUM_CONTEXTS | GSHMEMX_TEAM_UNIQUEID;

/// Returns what is wrong with the config of a new team; empty: nothing.
std::string complaint(const char* call, const Pe::TeamConfig& given) {
  if (std::string wrong = given.complaint(call); !wrong.empty()) return wrong;
  if ((given.mask & GSHMEM_TEAM_NUM_CONTEXTS) != 0 && given.config->num_contexts < 0) {
    return strprintf("%s: %s->num_contexts = %d is negative", call, given.argument,
                     given.config->num_contexts);
  }
  return "";
}

gshmem_team_config_t taken_over(const Pe::TeamConfig& given) {
  gshmem_team_config_t config = GSHMEM_TEAM_CONFIG_INITIALIZER;
  config.num_contexts = 0;
  if ((given.mask & GSHMEM_TEAM_NUM_CONTEXTS) != 0)
    config.num_contexts = given.config->num_contexts;
  if ((given.mask & GSHMEMX_TEAM_UNIQUEID) != 0) config.uniqueid = given.config->uniqueid;
  return config;
}

void require_range(const char* call, const char* argument, int value, int first, int last) {
  require(value >= first && value <= last, GSHMEMX_ERROR_INVALID_VALUE, [&] {
    return strprintf("%s: argument %s = %d is out of range [%d, %d]", call, argument, value, first,
                     last);
  });
}

}  // namespace

std::string Pe::TeamConfig::complaint(const char* call) const {
  if ((mask & ~kKnownMask) != 0) {
    return strprintf("%s: the mask of %s = %ld has bits that are not GSHMEM_TEAM fields", call,
                     argument, mask);
  }
  if (mask == 0 || config) return "";
  return strprintf("%s: argument %s is null, and its mask %ld is not 0", call, argument, mask);
}

void Pe::make_teams() {
  Teams::Predefined predefined;
  predefined.node = group().pes;
  predefined.same_index = group().same_index;
  // If not even the PE's own heap counts as mapped (GSHMEM_P2P=0), the PE shares memory with itself
  // only.
  for (int pe = 0; pe < state_.n_pes; ++pe) {
    if (pe == state_.my_pe || paths_->is_mapped(pe)) predefined.shared.push_back(pe);
  }
  Teams::Memory memory{table_memory(), {}, ops()};
  if (gpu_) memory.zero = [this](void* at, std::size_t bytes) { gpu_->zero(at, bytes); };
  const Config& config = options_.config;
  const Teams::Limits limits{
      config.alltoall_packets,     config.fcollect_packets,
      config.broadcast_packets,    config.reduce_packets,
      config.reduce_one_shot,      static_cast<std::uint64_t>(config.thread_packets),
      config.two_levels,           config.many_blocks,
      config.many_blocks_one_shot, config.many_blocks_packets};
  teams_ = std::make_unique<Teams>(config.teams, limits, predefined, domains(), std::move(memory),
                                   state_);
}

/// Returns by PE the first PE of those that map each other.
std::vector<std::int32_t> Pe::domains() {
  std::int32_t first = 0;
  while (first != state_.my_pe && !paths_->is_mapped(first)) ++first;
  return allgather(ranks(), first);
}

gshmem_team_t Pe::split_strided(const char* call, gshmem_team_t parent_team, Teams::Part part,
                                const TeamConfig& config, const gshmem_team_t* new_team) {
  const Waits::Call here(waits_, call);
  const abi::Team& parent = teams_->require(call, "parent_team", parent_team);
  std::string mine = complaint(call, config);
  if (mine.empty() && !new_team) mine = strprintf("%s: argument new_team is null", call);
  teams_->agree_on_call(
      call, parent, {{"start", part.start}, {"stride", part.stride}, {"size", part.size}}, mine);
  const int n = parent.n_pes;
  require_range(call, "start", part.start, 0, n - 1);
  require_range(call, "size", part.size, 1, n);
  const long last = part.start + static_cast<long>(part.stride) * (part.size - 1);
  require(part.size == 1 || (part.stride != 0 && last >= 0 && last < n),
          GSHMEMX_ERROR_INVALID_VALUE, [&] {
            return strprintf(
                "%s: argument stride = %d makes PE %ld the last of start = %d and size = %d, "
                "where the parent team has %d PEs",
                call, part.stride, last, part.start, part.size, n);
          });
  part.config = taken_over(config);
  return teams_->split(call, parent, {part}).front();
}

gshmem_team_t Pe::join_team(const char* call, const TeamConfig& config, int npes, int index,
                            const gshmem_team_t* team) {
  const Waits::Call here(waits_, call);
  std::string mine = complaint(call, config);
  require(mine.empty(), GSHMEMX_ERROR_INVALID_VALUE, mine);
  require((config.mask & GSHMEMX_TEAM_UNIQUEID) != 0, GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("%s: the mask of %s = %ld is without GSHMEMX_TEAM_UNIQUEID", call,
                    config.argument, config.mask));
  const std::uint64_t id = config.config->uniqueid;
  if (!team) {
    mine = strprintf("%s: argument team is null", call);
    rendezvous_.refuse(id, mine);
    throw Error(GSHMEMX_ERROR_INVALID_VALUE, mine);
  }
  std::uint32_t round = 0;
  return teams_->join(
      call, index, taken_over(config), [&](const std::vector<std::uint32_t>& words) {
        TeamRendezvous::Outcome exchanged =
            rendezvous_.exchange(call, {id, npes, index}, round++, words);
        return Teams::Exchanged{std::move(exchanged.pes), std::move(exchanged.words)};
      });
}

Pe::AxisTeams Pe::split_2d(const char* call, gshmem_team_t parent_team, int xrange,
                           const TeamConfig& x, const TeamConfig& y, bool is_good) {
  const Waits::Call here(waits_, call);
  const abi::Team& parent = teams_->require(call, "parent_team", parent_team);
  std::string mine = complaint(call, x);
  if (mine.empty()) mine = complaint(call, y);
  if (mine.empty() && !is_good)
    mine = strprintf("%s: argument xaxis_team or yaxis_team is null", call);
  teams_->agree_on_call(call, parent, {{"xrange", xrange}}, mine);
  require(xrange > 0, GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("%s: argument xrange = %d is not positive", call, xrange));
  const int n = parent.n_pes, width = std::min(xrange, n);
  const int column = parent.my_pe % width, first = parent.my_pe - column;
  const Teams::Part row{first, 1, std::min(width, n - first), taken_over(x)};
  const Teams::Part line{column, width, (n - column + width - 1) / width, taken_over(y)};
  const std::vector<gshmem_team_t> made = teams_->split(call, parent, {row, line});
  return {made[0], made[1]};
}

}  // namespace gshmem

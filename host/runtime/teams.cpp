#include "host/runtime/teams.h"

#include <gshmem/device/collective/grid.h>
#include <gshmem/device/ops/rma.h>
#include <gshmem/device/pe/team.h>
#include <gshmem/device/core/wait.h>

#include "host/base/error.h"
#include "host/base/net/socket.h"
#include "host/runtime/host_checks.h"

#include <algorithm>
#include <bit>
#include <set>

namespace gshmem {
namespace {

constexpr std::uint64_t slot_bytes(int teams) {
  return static_cast<std::uint64_t>(teams + Teams::kPredefined) * sizeof(abi::SyncSlot);
}
/// Returns the size of the packets, and of the words by which blocks synchronize.
constexpr std::uint64_t packet_bytes(int teams) {
  return std::min<std::uint64_t>(static_cast<std::uint64_t>(teams + Teams::kPredefined),
                                 abi::kPacketTeams) *
         (abi::kTeamPacketBytes + sizeof(abi::GridSlot));
}
constexpr auto kNoHandle = static_cast<std::uint32_t>(GSHMEM_TEAM_INVALID);
constexpr abi::Team kNone{nullptr, 0, 0, 0, -1, kNoHandle, 0};
constexpr std::uint64_t kAtFront = abi::kInternalBytes - sizeof(abi::InternalArea);
constexpr bool is_at_front(int teams) { return slot_bytes(teams) <= kAtFront; }

}  // namespace

TeamLevels levels_of(const std::vector<std::int32_t>& domains) {
  const std::size_t n = domains.size();
  const auto inner =
      n == 0 ? 0 : static_cast<std::size_t>(std::ranges::count(domains, domains.front()));
  if (inner < 2 || inner == n || n % inner != 0) return {};
  const std::size_t stride = domains[1] == domains[0] ? 1 : n / inner;
  const std::size_t outer = stride == 1 ? inner : 1;
  // The set has the first member of each row of the table. All members of a row have its domain,
  // and no other row has it.
  std::set<std::int32_t> rows;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int32_t row = domains[i / outer % (n / inner) * outer];
    if (domains[i] != row) return {};
    rows.insert(row);
  }
  if (rows.size() != n / inner) return {};
  return {static_cast<std::int32_t>(inner), static_cast<std::int32_t>(stride)};
}

std::uint64_t Teams::bytes_at_end(int teams) {
  return packet_bytes(teams) + (is_at_front(teams) ? 0 : slot_bytes(teams));
}

std::uint64_t Teams::network_bytes_at_end(int teams) {
  return is_at_front(teams) ? 0 : bytes_at_end(teams);
}

Teams::Teams(int teams, const Limits& limits, const Predefined& predefined,
             std::vector<std::int32_t> domains, Memory memory, abi::DeviceState& state)
    : limits_(limits), domains_(std::move(domains)), memory_(std::move(memory)), state_(state) {
  const auto count = static_cast<std::size_t>(teams + kPredefined);
  entries_.assign(count, kNone);
  lists_.resize(count);
  calls_.resize(count);
  generations_.resize(count);
  configs_.assign(count, GSHMEM_TEAM_CONFIG_INITIALIZER);
  taken_.assign(count, false);
  std::fill_n(taken_.begin(), kPredefined, true);
  device_entries_ = entries_.data();
  if (memory_.tables.allocate) {
    device_entries_ = static_cast<abi::Team*>(memory_.tables.allocate(count * sizeof(kNone)));
    memory_.tables.upload(device_entries_, entries_.data(), count * sizeof(kNone));
  }
  state_.team_slots = reinterpret_cast<abi::SyncSlot*>(
      state_.heap +
      (is_at_front(teams) ? sizeof(abi::InternalArea) : state_.heap_bytes + packet_bytes(teams)));
  state_.teams = device_entries_;
  state_.host_teams = entries_.data();
  state_.n_teams = static_cast<std::uint32_t>(count);

  write(GSHMEM_TEAM_WORLD, {nullptr, 0, 1, state_.n_pes, state_.my_pe, GSHMEM_TEAM_WORLD, 0}, {});
  state_.all_pes = 1u << GSHMEM_TEAM_WORLD;
  if (entries_[GSHMEM_TEAM_WORLD].flat != 0) state_.all_pes |= abi::kAllPesFlat;
  add_predefined(GSHMEM_TEAM_SHARED, predefined.shared);
  add_predefined(GSHMEMX_TEAM_NODE, predefined.node);
  add_predefined(GSHMEMX_TEAM_SAME_MYPE_NODE, predefined.same_index);
}

void Teams::add_predefined(gshmem_team_t team, const std::vector<int>& pes) {
  const auto mine = std::ranges::find(pes, state_.my_pe);
  if (pes.size() == static_cast<std::size_t>(state_.n_pes) && std::ranges::is_sorted(pes))
    state_.all_pes |= 1u << team;
  write(static_cast<std::size_t>(team),
        {nullptr, 0, 1, static_cast<std::int32_t>(pes.size()),
         static_cast<std::int32_t>(mine - pes.begin()), static_cast<std::uint32_t>(team), 0},
        {pes.begin(), pes.end()});
}

/// All members get the same result, because the PEs that map each other form disjoint sets
/// (transport/p2p/mapped_set.h).
bool Teams::is_mapped(const abi::Team& team) const {
  for (int i = 0; i < team.n_pes; ++i) {
    if (!device::is_mapped(state_, device::team_pe(team, i))) return false;
  }
  return true;
}

/// Sets the limits of a team. They depend only on data that all members know, because all members
/// must choose the same algorithm.
void Teams::set_limits(const Limits& limits, std::size_t index, abi::Team& team) {
  const bool has_packets = team.n_pes <= abi::kPacketPes && index < abi::kPacketTeams;
  const auto room = [&](std::uint32_t packets) -> std::uint64_t {
    if (!has_packets) return 0;
    return packets / static_cast<std::uint32_t>(std::max(team.n_pes, 1)) * abi::kPacketData;
  };
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const auto limit = static_cast<abi::Limit>(i);
    std::uint64_t most = UINT32_MAX;
    if (limit < abi::Limit::kReduceOneShot) most = room(abi::kGroupPackets);
    if (limit == abi::Limit::kGridPackets) most = room(abi::kPackets);
    if (limit == abi::Limit::kGrid && !has_packets) most = 0;
    if (team.mapped == 0) most = 0;
    team.limits[i] = static_cast<std::uint32_t>(std::min(limits[i], most));
  }
}

void Teams::set_levels(const Limits& limits, abi::Team& team) const {
  constexpr auto kLimit = static_cast<std::size_t>(abi::Limit::kTwoLevels);
  std::vector<std::int32_t> domains;
  for (int i = 0; !domains_.empty() && limits[kLimit] <= UINT32_MAX && i < team.n_pes; ++i)
    domains.push_back(domains_[static_cast<std::size_t>(device::team_pe(team, i))]);
  const TeamLevels levels = levels_of(domains);
  team.inner = levels.inner;
  team.inner_stride = levels.stride;
  team.limits[kLimit] = levels.inner == 0 ? 0 : static_cast<std::uint32_t>(limits[kLimit]);
}

abi::Team Teams::all_pes(const Limits& limits) const {
  abi::Team team = entries_[GSHMEM_TEAM_WORLD];
  set_limits(limits, GSHMEM_TEAM_WORLD, team);
  set_levels(limits, team);
  return team;
}

/// Writes an entry, whose members are listed in `pes`, or are given by start and stride. The handle
/// is stored last: a thread that finds the handle finds the rest. Pairs with find_team.
void Teams::write(std::size_t index, const abi::Team& entry, std::vector<std::int32_t> pes) {
  abi::Team& to = entries_[index];
  List& list = lists_[index];
  const bool listed = !pes.empty() && memory_.tables.allocate;
  if (listed && list.device == nullptr) {  // this comes first: it may throw
    const auto most = static_cast<std::size_t>(state_.n_pes);
    list.device = static_cast<std::int32_t*>(memory_.tables.allocate(most * sizeof(*list.device)));
  }
  list.host = std::move(pes);
  to.members = list.host.empty() ? nullptr : list.host.data();
  to.start = entry.start;
  to.stride = entry.stride;
  to.n_pes = entry.n_pes;
  to.my_pe = entry.my_pe;
  to.mapped = is_mapped(to) ? 1 : 0;
  to.flat = to.n_pes <= most_flat(to) ? 1 : 0;
  set_limits(limits_, index, to);
  set_levels(limits_, to);
  __atomic_store_n(&to.handle, entry.handle, __ATOMIC_RELEASE);
  if (!memory_.tables.allocate) return;
  abi::Team copy = to;
  if (listed) {
    memory_.tables.upload(list.device, to.members, list.host.size() * sizeof(*list.device));
    copy.members = list.device;
  }
  memory_.tables.upload(&device_entries_[index], &copy, sizeof(copy));
}

const abi::Team& Teams::require(const char* call, const char* argument, gshmem_team_t team) const {
  if (team == GSHMEM_TEAM_INVALID)
    throw Answer(GSHMEMX_ERROR_INVALID_VALUE, no_team_text(call, argument));
  const auto handle = static_cast<std::uint32_t>(team);
  const std::uint32_t index = device::team_index(handle);
  const bool is_team = team >= 0 && index < entries_.size() &&
                       __atomic_load_n(&entries_[index].handle, __ATOMIC_ACQUIRE) == handle;
  gshmem::require(is_team, GSHMEMX_ERROR_INVALID_VALUE,
                  strprintf("%s: argument %s = %d is not a team", call, argument, team));
  return entries_[index];
}

gshmem_team_config_t Teams::config(const abi::Team& team) const { return configs_[index_of(team)]; }

void Teams::send(const std::uint64_t* to, std::uint32_t number, const Words& words, int count,
                 int pe) {
  std::array<std::uint64_t, abi::kAgreeWords> wire{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    wire[i] = static_cast<std::uint64_t>(number) << 32 | words[i];
    auto* const word = const_cast<std::uint64_t*>(to + i);
    if (memory_.ops) {
      (void)memory_.ops->run(device::Call::transfer(device::CallKind::kPut, "team", word, &wire[i],
                                                    sizeof(wire[i]), pe, false));
    } else {
      device::p(state_, word, wire[i], pe);
    }
  }
  if (memory_.ops) (void)memory_.ops->run(device::Call::quiet("team"));
}

void Teams::require_running(const char* call) const {
  if (device::load_acquire(&state_.control->stop) == 0) return;
  throw Error(static_cast<gshmemx_status>(device::fault_code(state_)),
              strprintf("%s: a fault has stopped this PE", call));
}

std::uint32_t Teams::receive(const char* call, const std::uint64_t* from, std::uint32_t number,
                             int pe) const {
  std::uint64_t word = 0;
  const bool came = device::spin_until(
      state_, call,
      [&] {
        word = memory_.ops ? memory_.ops->run(device::Call::load(from, sizeof(word)))
                           : device::load_acquire(from);
        return word >> 32 == number;
      },
      pe);
  if (!came) require_running(call);
  return static_cast<std::uint32_t>(word);
}

/// Combines the words in rounds, like device/ops/sync.h. To combine a word twice changes nothing.
Teams::Words Teams::agree(const char* call, const abi::Team& team, Words words, int count) {
  require_running(call);  // the data may have arrived nevertheless, on some members
  const std::size_t index = index_of(team);
  const std::uint32_t number = ++calls_[index];
  if (memory_.ops) {
    (void)memory_.ops->run(device::Call::quiet("team"));
  } else {
    device::fence_system();
  }
  std::size_t round = 0;
  for (int distance = 1; distance < team.n_pes; distance *= 2, ++round) {
    const std::uint64_t* const at = state_.team_slots[index].agreed[number % 2][round];
    const int to = (team.my_pe + distance) % team.n_pes;
    const int from = (team.my_pe + team.n_pes - distance) % team.n_pes;
    send(at, number, words, count, device::team_pe(team, to));
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      words[i] &= receive(call, at + i, number, device::team_pe(team, from));
    }
    device::fence_system();
  }
  return words;
}

namespace {

// Returns the first words of every call: a number for the call, and the complement of that number.
// Combined by `and` they show whether members differ, as those of arguments do.
std::uint32_t number_of(const char* call) {
  return std::bit_cast<std::array<std::uint32_t, 4>>(net::cookie_of(call)).front();
}
bool is_same(std::uint32_t combined, std::uint32_t complement) { return combined == ~complement; }
void require_same_call(const char* call, std::uint32_t combined, std::uint32_t complement) {
  require(is_same(combined, complement), GSHMEMX_ERROR_SYMMETRY, [&] {
    return strprintf("%s: another member of the team is in another call on it", call);
  });
}

}  // namespace

void Teams::sync(const char* call, gshmem_team_t handle) {
  const std::uint32_t number = number_of("sync");
  const Words words = agree(call, require(call, "team", handle), {number, ~number}, 2);
  require_same_call(call, words[0], words[1]);
}

void Teams::agree_on_call(const char* call, const abi::Team& team, const std::vector<Same>& same,
                          const std::string& mine) {
  const std::uint32_t number = number_of(call);
  Words words{number, ~number, mine.empty() ? ~0u : 0u};
  static_assert(3 + 2 * kMostSame <= abi::kAgreeWords);
  for (std::size_t i = 0; i < same.size(); ++i) {
    words[3 + 2 * i] = static_cast<std::uint32_t>(same[i].value);
    words[4 + 2 * i] = ~words[3 + 2 * i];
  }
  words = agree(call, team, words, 3 + 2 * static_cast<int>(kMostSame));
  require_same_call(call, words[0], words[1]);
  gshmem::require(mine.empty(), GSHMEMX_ERROR_INVALID_VALUE, mine);
  gshmem::require(words[2] != 0, GSHMEMX_ERROR_INVALID_VALUE,
                  [&] { return strprintf("%s: failed on another member of the team", call); });
  for (std::size_t i = 0; i < same.size(); ++i) {
    gshmem::require(is_same(words[3 + 2 * i], words[4 + 2 * i]), GSHMEMX_ERROR_SYMMETRY, [&] {
      return strprintf("%s: argument %s = %d differs between the members of the team", call,
                       same[i].argument, same[i].value);
    });
  }
}

/// Finds an entry that is free on all members of the new team. The search depends on `spread`, so
/// that threads that create several teams at the same time try different entries.
std::size_t Teams::propose(const char* call, const Combine& combine, std::size_t spread,
                           bool member) {
  constexpr std::size_t kBits = 32, kWindow = kBits * abi::kAgreeWords;
  for (std::size_t first = 0; first < entries_.size(); first += kWindow) {
    const std::size_t end = std::min(first + kWindow, entries_.size());
    const auto count = static_cast<int>((end - first + kBits - 1) / kBits);
    Words words;
    words.fill(member ? 0u : ~0u);
    if (member) {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = first; i < end; ++i) {
        if (!taken_[i]) words[(i - first) / kBits] |= 1u << (i - first) % kBits;
      }
    }
    words = combine(words, count);
    std::vector<std::size_t> free;
    for (std::size_t i = first; i < end; ++i) {
      if ((words[(i - first) / kBits] >> (i - first) % kBits & 1) != 0) free.push_back(i);
    }
    if (!free.empty()) return free[spread % free.size()];
  }
  throw Answer(GSHMEMX_ERROR_OUT_OF_MEMORY,
               strprintf("%s: a member has no team left of GSHMEM_TEAMS=%zu; "
                         "destroy teams that are not used any more, or raise it",
                         call, entries_.size() - kPredefined));
}

bool Teams::claim(std::size_t index) {
  {
    const std::lock_guard lock(mutex_);
    if (taken_[index]) return false;
    taken_[index] = true;
  }
  clear(state_.team_slots + index, sizeof(abi::SyncSlot));
  if (index < abi::kPacketTeams) {
    clear(state_.heap + state_.heap_bytes + index * abi::kTeamPacketBytes, abi::kTeamPacketBytes);
    clear(device::grid_slots(state_) + index, sizeof(abi::GridSlot));
  }
  calls_[index] = 0;
  return true;
}

void Teams::clear(void* memory, std::uint64_t bytes) {
  if (memory_.zero) return memory_.zero(memory, bytes);
  auto* const words = static_cast<std::uint64_t*>(memory);
  for (std::size_t i = 0; i < bytes / sizeof(*words); ++i) {
    device::store_relaxed(words + i, std::uint64_t{0});
  }
}

void Teams::release(std::size_t index) {
  const std::lock_guard lock(mutex_);
  taken_[index] = false;
}

/// Reserves an entry. When it returns, all members have cleared their slots, and flags may arrive.
std::size_t Teams::take(const char* call, const Combine& combine, std::size_t spread, bool member) {
  for (;; spread += 7) {
    const std::size_t index = propose(call, combine, spread, member);
    const bool mine = member && claim(index);
    try {
      if (combine({mine || !member ? 1u : 0u}, 1)[0] != 0) return index;
    } catch (...) {
      if (mine) release(index);
      throw;
    }
    if (mine) release(index);
  }
}

gshmem_team_t Teams::open(std::size_t index, abi::Team entry, std::vector<std::int32_t> pes,
                          const gshmem_team_config_t& config) {
  generations_[index] = generations_[index] % INT16_MAX + 1;
  entry.handle = generations_[index] << abi::kTeamIndexBits | static_cast<std::uint32_t>(index);
  configs_[index] = config;
  write(index, entry, std::move(pes));
  return static_cast<gshmem_team_t>(entry.handle);
}

std::vector<gshmem_team_t> Teams::split(const char* call, const abi::Team& parent,
                                        const std::vector<Part>& parts) {
  std::vector<abi::Team> entries;
  for (const Part& part : parts) {
    abi::Team& entry = entries.emplace_back(parent);
    entry.start = parent.start + part.start * parent.stride;
    entry.stride = part.size == 1 ? 1 : part.stride * parent.stride;
    entry.n_pes = part.size;
    entry.my_pe = device::team_number(entry, state_.my_pe);  // -1: not a member
  }
  const Combine combine = [&](const Words& words, int count) {
    return agree(call, parent, words, count);
  };
  std::vector<std::size_t> taken;
  try {
    for (const abi::Team& entry : entries)
      taken.push_back(take(call, combine, index_of(parent), entry.my_pe >= 0));
  } catch (...) {
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (entries[i].my_pe >= 0) release(taken[i]);
    }
    throw;
  }
  std::vector<gshmem_team_t> teams(parts.size(), GSHMEM_TEAM_INVALID);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (entries[i].my_pe >= 0)
      teams[i] = open(taken[i], entries[i], lists_[index_of(parent)].host, parts[i].config);
  }
  return teams;
}

gshmem_team_t Teams::join(const char* call, int my_pe, const gshmem_team_config_t& config,
                          const Exchange& exchange) {
  std::vector<std::int32_t> pes;
  const Combine combine = [&](const Words& words, int count) {
    Exchanged exchanged = exchange({words.begin(), words.begin() + count});
    pes = std::move(exchanged.pes);
    Words all{};
    std::ranges::copy(exchanged.words, all.begin());
    return all;
  };
  const std::size_t index = take(call, combine, config.uniqueid, true);
  const auto n_pes = static_cast<std::int32_t>(pes.size());
  return open(index, {nullptr, 0, 1, n_pes, my_pe, kNoHandle, 0}, std::move(pes), config);
}

void Teams::destroy(const char* call, const abi::Team& team) {
  const std::size_t index = index_of(team);
  gshmem::require(
      index >= kPredefined, GSHMEMX_ERROR_INVALID_VALUE,
      strprintf("%s: argument team = %d is a predefined team, which cannot be destroyed", call,
                static_cast<int>(team.handle)));
  agree_on_call(call, team, {}, "");
  write(index, kNone, {});
  release(index);
}

}  // namespace gshmem

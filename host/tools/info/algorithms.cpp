#include "host/tools/info/algorithms.h"

#include <gshmem/device/collective/collective.h>

#include "host/base/error.h"

#include <algorithm>
#include <functional>

namespace gshmem::info {
namespace {

using device::Algorithm, device::CallKind;

std::string_view name_of(Algorithm algorithm) {
  constexpr std::string_view kNames[] = {"packets",  "direct",      "two levels",
                                         "one shot", "two shots",   "chunks",
                                         "words",    "many blocks", "many blocks, one shot"};
  static_assert(std::size(kNames) == device::kAlgorithms);
  return kNames[static_cast<std::size_t>(algorithm)];
}

/// Indexed by abi::Limit.
constexpr std::string_view kVariables[] = {
    "GSHMEM_ALLTOALL_PACKETS",   "GSHMEM_FCOLLECT_PACKETS", "GSHMEM_BROADCAST_PACKETS",
    "GSHMEM_REDUCE_PACKETS",     "GSHMEM_REDUCE_ONE_SHOT",  "GSHMEM_THREAD_PACKETS",
    "GSHMEM_TWO_LEVELS",         "GSHMEM_MANY_BLOCKS",      "GSHMEM_MANY_BLOCKS_ONE_SHOT",
    "GSHMEM_MANY_BLOCKS_PACKETS"};
static_assert(std::size(kVariables) == abi::kLimits);

/// It is larger than any limit, since limits are words of 32 bits.
constexpr std::uint64_t kMost = std::uint64_t{1} << 33;

/// Returns the algorithm that a team chooses for calls of a number of bytes.
using Choice = std::function<Algorithm(const abi::Team& team, std::uint64_t bytes)>;

/// A thread or warp, as calls name it.
template <class Coop>
struct Threads : Coop {
  explicit Threads(int size) : n(size) {}
  int n;
  [[nodiscard]] int size() const { return n; }
};
template <CallKind kKind, class Coop>
Choice choice(Coop coop, bool in_place) {
  return [=](const abi::Team& team, std::uint64_t bytes) {
    alignas(device::Word16) static char arrays[2 * sizeof(device::Word16)];
    const device::TeamCall call{
        nullptr, "", &team, arrays, arrays + (in_place ? 0 : sizeof(device::Word16)), bytes};
    return device::algorithm_of<kKind>(coop, call, sizeof(device::Word16));
  };
}

/// Appends the sizes in (low, high] at which the choice changes. A choice does not return to an
/// earlier one.
void add_changes(std::vector<AlgorithmRange>& ranges, const Choice& choose, const abi::Team& team,
                 std::uint64_t low, std::uint64_t high) {
  const Algorithm last = choose(team, high);
  if (choose(team, low) == last) return;
  if (high - low == 1) {
    ranges.back().to = low;
    ranges.push_back({high, 0, name_of(last), {}});
    return;
  }
  const std::uint64_t middle = low + (high - low) / 2;
  add_changes(ranges, choose, team, low, middle);
  add_changes(ranges, choose, team, middle, high);
}
std::vector<AlgorithmRange> ranges_of(const Choice& choose, const abi::Team& team) {
  std::vector<AlgorithmRange> ranges{{1, 0, name_of(choose(team, 1)), {}}};
  for (std::uint64_t low = 1; low < kMost; low *= 2)
    add_changes(ranges, choose, team, low, 2 * low);
  return ranges;
}

/// Adds the variables that matter.
std::vector<AlgorithmRange> explained(const Choice& choose, const Teams& teams) {
  const Teams::Limits& limits = teams.limits();
  const std::vector<AlgorithmRange> plain = ranges_of(choose, teams.all_pes(limits));
  std::vector<AlgorithmRange> ranges = plain;
  for (std::size_t i = 0; i < std::size(kVariables); ++i) {
    const auto with = [&](std::uint64_t value) {
      Teams::Limits changed = limits;
      changed[i] = value;
      return teams.all_pes(changed);
    };
    const abi::Team most = with(kMost), less = with(std::max<std::uint64_t>(limits[i], 1) - 1);
    if (ranges.size() == 1 &&
        (ranges_of(choose, most) != plain || ranges_of(choose, with(0)) != plain))
      ranges[0].moved_by.push_back(kVariables[i]);
    for (AlgorithmRange& range : ranges) {
      if (range.to != 0 && (name_of(choose(most, range.to + 1)) == range.algorithm ||
                            name_of(choose(less, range.to)) != range.algorithm))
        range.moved_by.push_back(kVariables[i]);
    }
  }
  return ranges;
}

/// Scopes that choose alike share one row.
template <CallKind kKind>
void add_rows(Algorithms& table, std::string_view operation, const Teams& teams, bool on_gpu,
              bool in_place = false) {
  const auto add = [&](std::vector<std::string_view> scopes, const Choice& choose) {
    std::vector<AlgorithmRange> ranges = explained(choose, teams);
    if (!table.rows.empty() && table.rows.back().operation == operation &&
        table.rows.back().ranges == ranges) {
      std::vector<std::string_view>& all = table.rows.back().scopes;
      all.insert(all.end(), scopes.begin(), scopes.end());
    } else {
      table.rows.push_back({operation, std::move(scopes), std::move(ranges)});
    }
  };
  using Scopes = std::vector<std::string_view>;
  // For host threads with GPUs, and for streams, blocks of the library execute the call.
  add(on_gpu ? Scopes{"thread"} : Scopes{"thread", "host", "stream"},
      choice<kKind>(Threads<device::Thread>(1), in_place));
  add({"warp"},
      choice<kKind>(Threads<device::Warp>(on_gpu ? 32 : device::kHostWarpSize), in_place));
  add({"block"}, choice<kKind>(device::Block{}, in_place));
  if (on_gpu) add({"host", "stream"}, choice<kKind>(device::ManyBlocks{}, in_place));
}

}  // namespace

std::string Algorithms::topology() const {
  if (team.n_pes == 1) return "1 PE";
  const std::string all = strprintf("%d PEs", team.n_pes);
  if (team.mapped != 0) return all + ", which map each other";
  if (team.inner == 0) return all + ", some by the network";
  return all + strprintf(", %d in each of %d domains", team.inner, team.n_pes / team.inner);
}

Algorithms algorithms(const Teams& teams, bool on_gpu) {
  Algorithms table{teams.all_pes(teams.limits()), {}, 0};
  table.flat_members = Teams::most_flat(table.team);
  add_rows<CallKind::kAlltoall>(table, "alltoall", teams, on_gpu);
  add_rows<CallKind::kBroadcast>(table, "broadcast", teams, on_gpu);
  add_rows<CallKind::kFcollect>(table, "fcollect", teams, on_gpu);
  add_rows<CallKind::kReduce>(table, "reduce", teams, on_gpu);
  add_rows<CallKind::kReduce>(table, "reduce in place", teams, on_gpu, true);
  add_rows<CallKind::kReducescatter>(table, "reducescatter", teams, on_gpu);
  add_rows<CallKind::kCollect>(table, "collect", teams, on_gpu);
  add_rows<CallKind::kAlltoalls>(table, "alltoalls", teams, on_gpu);
  add_rows<CallKind::kInscan>(table, "inscan", teams, on_gpu);
  add_rows<CallKind::kExscan>(table, "exscan", teams, on_gpu);
  return table;
}

}  // namespace gshmem::info

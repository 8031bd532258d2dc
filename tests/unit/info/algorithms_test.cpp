// Compares the table of algorithms with what calls do. PEs are threads; each makes calls of sizes
// at the bounds of the table, and of random sizes between. Its slot shows the algorithm: packets,
// or the number of syncs of the team.
#include "host/tools/info/algorithms.h"

#include "host/runtime/pe.h"
#include "host/runtime/process.h"

#include <gshmem/gshmem.hpp>

#include <catch2/catch.hpp>

#include <stdlib.h>

#include <algorithm>
#include <map>
#include <random>

namespace gshmem::info {
namespace {

using Variables = std::map<std::string, std::string>;

class Environment {
 public:
  explicit Environment(Variables variables) : variables_(std::move(variables)) {
    variables_.insert({{"GSHMEM_DEVICE", "cpu"}, {"GSHMEM_SYMMETRIC_SIZE", "8M"}});
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;

 private:
  Variables variables_;
};

constexpr std::size_t kMost = 24 << 10;  ///< bytes of a call
constexpr std::uint8_t kOnes = 1;

struct Arrays {
  std::uint8_t *source, *dest, *other;
};

/// How this PE executed its last call.
struct Way {
  std::uint32_t packets;  ///< calls by packets
  std::uint64_t syncs;
  bool alone;  ///< for a reduction: it has combined its whole result itself
};

const abi::SyncSlot& slot() { return gshmemi_ambient()->state->team_slots[GSHMEM_TEAM_WORLD]; }

/// `apart`: dest is another array on members with an odd number, so stores of other members do not
/// reach the array that is compared.
Way way_of(const LaunchShape& shape, const Arrays& arrays, bool apart,
           const std::function<int(const LaunchContext&, const Arrays&)>& call) {
  const abi::DeviceState& state = *gshmemi_ambient()->state;
  Arrays mine = arrays;
  if (apart && state.my_pe % 2 == 1) mine.dest = mine.other;
  std::fill_n(mine.source, kMost, kOnes);
  gshmem_barrier_all();
  const std::uint32_t packets = slot().packets;
  const std::uint64_t syncs = slot().epoch;
  int status = -1;
  launch(shape, [&](const LaunchContext& ctx) {
    const int answer = call(ctx, mine);
    if (ctx.thread_rank() == 0) status = answer;
  });
  const Way way{slot().packets - packets, slot().epoch - syncs, mine.dest[0] == state.n_pes};
  gshmem_barrier_all();
  std::fill_n(arrays.dest, kMost, std::uint8_t{0});
  std::fill_n(arrays.other, kMost, std::uint8_t{0});
  if (status != 0) throw std::runtime_error("status " + std::to_string(status));
  return way;
}

template <class Group>
int make(const LaunchContext& ctx, Group group, std::string_view operation, const Arrays& a,
         std::size_t bytes) {
  constexpr gshmem_team_t kAll = GSHMEM_TEAM_WORLD;
  if (operation == "alltoall") return ctx.alltoall(group, kAll, a.dest, a.source, bytes);
  if (operation == "broadcast") return ctx.broadcast(group, kAll, a.dest, a.source, bytes, 0);
  if (operation == "fcollect") return ctx.fcollect(group, kAll, a.dest, a.source, bytes);
  if (operation == "collect") return ctx.collect(group, kAll, a.dest, a.source, bytes);
  if (operation == "alltoalls") return ctx.alltoalls(group, kAll, a.dest, a.source, {1, 1, bytes});
  if (operation == "reducescatter")
    return ctx.reducescatter<ReduceOp::kSum>(group, kAll, a.dest, a.source, bytes);
  if (operation == "inscan")
    return ctx.inscan<ReduceOp::kSum>(group, kAll, a.dest, a.source, bytes);
  if (operation == "exscan")
    return ctx.exscan<ReduceOp::kSum>(group, kAll, a.dest, a.source, bytes);
  // Below the checks of the API, which refuse a dest that differs.
  const abi::DeviceState& state = *gshmemi_ambient()->state;
  const device::TeamCall call{&state, "reduce", device::team_entries(state) + kAll,
                              a.dest, a.source, bytes};
  return device::reduce<std::uint8_t>(
      group, call, device::AnyReducer{ReduceOp::kSum, device::ElementType::kUint8});
}

Way way_of(const AlgorithmRow& row, std::string_view scope, Arrays arrays, std::size_t bytes) {
  if (row.operation == "reduce in place") arrays.dest = arrays.source;
  const auto by = [&](unsigned threads, auto group) {
    return way_of({.threads = threads}, arrays, row.operation == "reduce",
                  [&](const LaunchContext& ctx, const Arrays& mine) {
                    return make(ctx, group, row.operation, mine, bytes);
                  });
  };
  if (scope == "warp") return by(device::kHostWarpSize, device::Warp{});
  return scope == "block" ? by(8, device::Block{}) : by(1, device::Thread{});
}

/// Returns how a call shows that it used another algorithm than the table names; empty: it does
/// not.
std::string complaint(const AlgorithmRow& row, std::string_view algorithm, const Way& way,
                      const abi::Team& team, std::size_t bytes) {
  const bool two_shots = row.operation == "reduce" && team.my_pe % 2 == 1 && !way.alone;
  const std::map<std::string_view, std::uint64_t> syncs{
      {"packets", 0},
      {"direct", 1},
      {"two levels", row.operation == "broadcast"  ? 3
                     : row.operation == "fcollect" ? 2
                                                   : 4},
      {"one shot", 2},
      {"two shots", 2},
      {"chunks", bytes < static_cast<std::size_t>(team.n_pes) ? 2 : 3},
      {"words", 2}};
  if (way.packets == (algorithm == "packets" ? 1 : 0) && way.syncs == syncs.at(algorithm) &&
      (algorithm != "one shot" || !two_shots) &&
      (algorithm != "two shots" || row.operation != "reduce" || team.my_pe % 2 == 0 || two_shots))
    return "";
  return std::string(row.operation) + " of " + std::to_string(bytes) + " bytes is not by " +
         std::string(algorithm) + ": " + std::to_string(way.packets) + " by packets, " +
         std::to_string(way.syncs) + " syncs\n";
}

struct Seen {
  Algorithms table;
  std::string complaints;
};
/// Runs the calls as one of `n` PEs. All PEs draw the same sizes.
Seen see(int n, Variables variables, unsigned seed) {
  const Environment environment(std::move(variables));
  std::vector<Seen> seen(static_cast<std::size_t>(n));
  run_threads(n, [&](const Runtime& runtime) {
    Seen& mine = seen[static_cast<std::size_t>(runtime.my_pe())];
    mine.table = algorithms(require_pe("test").teams(), false);
    const std::size_t room = kMost * static_cast<std::size_t>(n);
    SymmetricArray<std::uint8_t> source(room), dest(room), other(room);
    std::mt19937 random(seed);
    for (const AlgorithmRow& row : mine.table.rows) {
      for (const AlgorithmRange& range : row.ranges) {
        const std::uint64_t end = range.to == 0 ? kMost : std::min<std::uint64_t>(range.to, kMost);
        if (range.from > end) continue;
        std::uniform_int_distribution<std::uint64_t> any(range.from, end);
        const std::string_view scope = row.scopes[random() % row.scopes.size()];
        for (const std::uint64_t bytes :
             {range.from, any(random), range.to == 0 ? range.from : end})
          mine.complaints +=
              complaint(row, range.algorithm,
                        way_of(row, scope, {source.data(), dest.data(), other.data()}, bytes),
                        mine.table.team, bytes);
      }
    }
  });
  INFO("seed " << seed);
  for (const Seen& one : seen) CHECK(one.complaints == "");
  for (const Seen& one : seen) {
    CHECK((one.table.sync() == "flat") == (n <= one.table.flat_members));
    REQUIRE(one.table.rows.size() == seen[0].table.rows.size());
    for (std::size_t i = 0; i < one.table.rows.size(); ++i)
      CHECK(one.table.rows[i].ranges == seen[0].table.rows[i].ranges);
  }
  return seen[0];
}

const AlgorithmRow& row_of(const Algorithms& table, std::string_view operation,
                           std::string_view scope) {
  for (const AlgorithmRow& row : table.rows) {
    if (row.operation == operation && std::ranges::find(row.scopes, scope) != row.scopes.end())
      return row;
  }
  throw std::runtime_error("no such row");
}

}  // namespace

TEST_CASE("calls_of_members_that_map_each_other_use_the_algorithm_of_the_table") {
  const unsigned seed = std::random_device{}();
  const Seen usual = see(3, {}, seed);
  CHECK(usual.table.topology() == "3 PEs, which map each other");
  CHECK(row_of(usual.table, "reduce", "block").ranges ==
        std::vector<AlgorithmRange>{{1, 4096, "packets", {"GSHMEM_REDUCE_PACKETS"}},
                                    {4097, 16384, "one shot", {"GSHMEM_REDUCE_ONE_SHOT"}},
                                    {16385, 0, "two shots", {}}});
  CHECK(row_of(usual.table, "alltoall", "host").ranges[0].moved_by ==
        std::vector<std::string_view>{"GSHMEM_THREAD_PACKETS"});
  for (const std::string_view operation :
       {"alltoall", "broadcast", "fcollect", "reduce", "reduce in place", "reducescatter",
        "collect", "alltoalls", "inscan", "exscan"})
    CHECK_NOTHROW(row_of(usual.table, operation, "warp"));

  const Seen moved = see(4,
                         {{"GSHMEM_ALLTOALL_PACKETS", "0"},
                          {"GSHMEM_BROADCAST_PACKETS", "1G"},
                          {"GSHMEM_FCOLLECT_PACKETS", "1"},
                          {"GSHMEM_REDUCE_PACKETS", "0"},
                          {"GSHMEM_REDUCE_ONE_SHOT", "6400"},
                          {"GSHMEM_THREAD_PACKETS", "1000"}},
                         seed);
  CHECK(row_of(moved.table, "alltoall", "block").ranges ==
        std::vector<AlgorithmRange>{{1, 0, "direct", {"GSHMEM_ALLTOALL_PACKETS"}}});
  CHECK(row_of(moved.table, "fcollect", "block").ranges ==
        std::vector<AlgorithmRange>{{1, 1, "packets", {"GSHMEM_FCOLLECT_PACKETS"}},
                                    {2, 0, "direct", {}}});
  // All calls that fit, which no variable changes.
  CHECK(row_of(moved.table, "broadcast", "warp").ranges ==
        std::vector<AlgorithmRange>{{1, 4096, "packets", {}}, {4097, 0, "direct", {}}});
  CHECK(row_of(moved.table, "reduce", "thread").ranges ==
        std::vector<AlgorithmRange>{{1, 100, "one shot", {"GSHMEM_REDUCE_ONE_SHOT"}},
                                    {101, 0, "two shots", {}}});
}

TEST_CASE("a_bound_that_two_variables_set_is_moved_by_each") {
  const Seen both = see(3, {{"GSHMEM_ALLTOALL_PACKETS", "24"}, {"GSHMEM_THREAD_PACKETS", "9"}}, 1);
  CHECK(row_of(both.table, "alltoall", "thread").ranges ==
        std::vector<AlgorithmRange>{
            {1, 24, "packets", {"GSHMEM_ALLTOALL_PACKETS", "GSHMEM_THREAD_PACKETS"}},
            {25, 0, "direct", {}}});
}

#if defined(GSHMEM_TEST_SOFT)
TEST_CASE("calls_between_hosts_use_the_algorithm_of_the_table") {
  const unsigned seed = std::random_device{}();
  const Variables apart{
      {"GSHMEM_NIC", "soft"}, {"GSHMEM_P2P_GROUP", "2"}, {"GSHMEM_TWO_LEVELS", "1K"}};
  const Seen levels = see(4, apart, seed);
  CHECK(levels.table.topology() == "4 PEs, 2 in each of 2 domains");
  for (const std::string_view operation : {"broadcast", "fcollect"}) {
    CHECK(row_of(levels.table, operation, "thread").ranges ==
          std::vector<AlgorithmRange>{{1, 1023, "direct", {"GSHMEM_TWO_LEVELS"}},
                                      {1024, 0, "two levels", {}}});
  }
  CHECK(row_of(levels.table, "alltoall", "thread").ranges ==
        std::vector<AlgorithmRange>{{1, 0, "direct", {}}});
  const Seen uneven = see(3, apart, seed);
  CHECK(uneven.table.topology() == "3 PEs, some by the network");
  CHECK(row_of(uneven.table, "reduce", "block").ranges[0].algorithm == "chunks");
}
#endif

}  // namespace gshmem::info

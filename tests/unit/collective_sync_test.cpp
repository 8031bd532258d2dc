// Runs collectives of groups of which one lane is late: it stops after each of its
// synchronizations, and in each of its waits, until no other lane can go on. Steps whose order no
// synchronization keeps then give wrong results.
#include "tests/unit/lanes/job.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gshmem::test {
namespace {

using device::CallKind, device::ReduceOp, device::TeamCall;

constexpr std::uint64_t kCalls = 2;  ///< calls of a group in a row
constexpr std::size_t kMost = 2048;  ///< bytes of an array

struct Call {
  const State& state;
  LaneGroup group;
  const abi::Team* team;
  int me, n_pes;
  std::uint8_t *dest, *source;
  std::size_t bytes;
  [[nodiscard]] TeamCall of() const { return {&state, "test", team, dest, source, bytes}; }
};
/// Returns byte `i` of the source of PE `pe` in call `number`.
std::uint8_t byte(int pe, std::uint64_t number, std::size_t i) {
  return static_cast<std::uint8_t>(
      (number * 151 + static_cast<std::uint64_t>(pe) * 59 + i * 13) * 0x9e3779b97f4a7c15u >> 56);
}

struct Collective {
  const char* name;
  int (*make)(const Call& call);
  /// Returns the expected byte `i` of the result of member `me`; `of(pe, i)` reads the sources.
  using Of = std::function<std::uint8_t(int pe, std::size_t i)>;
  std::uint8_t (*result)(const Call& call, std::size_t i, const Of& of);
  bool gives_parts, gets_parts;
  bool in_place = false;
  bool frees_source = true;  ///< when it returns, not only when all members have returned
};
constexpr int kRoot = 1;

std::uint8_t sum_of(int n, std::size_t i, const Collective::Of& of) {
  unsigned sum = 0;
  for (int pe = 0; pe < n; ++pe) sum += of(pe, i);
  return static_cast<std::uint8_t>(sum);
}
using Sum = device::TypedReducer<ReduceOp::kSum, std::uint8_t>;
template <CallKind kKind>
int combine(const Call& c) {
  TeamCall call = c.of();
  if (kKind == CallKind::kReducescatter) call = device::at_own_part(call);
  return api::reduce_by<kKind, std::uint8_t>(c.group, call, Sum{});
}
std::uint8_t reduced(const Call& c, std::size_t i, const Collective::Of& of) {
  return sum_of(c.n_pes, i, of);
}
std::uint8_t gathered(const Call& c, std::size_t i, const Collective::Of& of) {
  return of(static_cast<int>(i / c.bytes), i % c.bytes);
}
std::uint8_t exchanged(const Call& c, std::size_t i, const Collective::Of& of) {
  return of(static_cast<int>(i / c.bytes), static_cast<std::size_t>(c.me) * c.bytes + i % c.bytes);
}

const Collective kAlltoall{
    "alltoall",
    [](const Call& c) { return device::alltoall(c.group, device::at_own_part(c.of())); }, exchanged,
    true, true};
const Collective kAlltoalls{
    "alltoalls",
    [](const Call& c) {
      return device::alltoalls<std::uint8_t>(c.group, c.of(), {1, 1, c.bytes});
    },
    exchanged, true, true};
const Collective kBroadcast{
    "broadcast", [](const Call& c) { return device::broadcast(c.group, c.of(), kRoot); },
    [](const Call&, std::size_t i, const Collective::Of& of) { return of(kRoot, i); }, false,
    false};
const Collective kFcollect{"fcollect",
                           [](const Call& c) { return device::fcollect(c.group, c.of()); },
                           gathered, false, true};
const Collective kCollect{"collect", [](const Call& c) { return device::collect(c.group, c.of()); },
                          gathered, false, true};
const Collective kReduce{"reduce", combine<CallKind::kReduce>, reduced, false, false};
const Collective kReduceInPlace{
    "reduce in place", combine<CallKind::kReduce>, reduced, false, false, true};
const Collective kReducescatter{"reducescatter", combine<CallKind::kReducescatter>,
                                [](const Call& c, std::size_t i, const Collective::Of& of) {
                                  return sum_of(c.n_pes,
                                                static_cast<std::size_t>(c.me) * c.bytes + i, of);
                                },
                                true, false};
const Collective kInscan{
    "inscan", combine<CallKind::kInscan>,
    [](const Call& c, std::size_t i, const Collective::Of& of) { return sum_of(c.me + 1, i, of); },
    false, false};
const Collective kInscanInPlace{
    "inscan in place", kInscan.make, kInscan.result, false, false, true};

/// Every lane puts its part to the next PE, then all lanes synchronize.
void put_right(const Call& c) {
  for (std::size_t i = static_cast<std::size_t>(c.group.size() - 1 - c.group.rank); i < c.bytes;
       i += static_cast<std::size_t>(c.group.size()))
    device::p(c.state, c.dest + i, c.source[i], (c.me + 1) % c.n_pes);
}
std::uint8_t from_left(const Call& c, std::size_t i, const Collective::Of& of) {
  return of((c.me + c.n_pes - 1) % c.n_pes, i);
}
const Collective kSyncAll{"sync_all",
                          [](const Call& c) {
                            put_right(c);
                            device::sync_all(c.group, c.state, "test");
                            return 0;
                          },
                          from_left, false, false};
const Collective kBarrierAll{"barrier_all",
                             [](const Call& c) {
                               put_right(c);
                               device::barrier_all(c.group, c.state, "test");
                               return 0;
                             },
                             from_left, false, false};
const Collective kTeamSync{"team_sync",
                           [](const Call& c) {
                             put_right(c);
                             return device::team_sync(c.group, c.state, "test",
                                                      static_cast<int>(c.team->handle));
                           },
                           from_left, false, false};
const Collective kTeamBarrier{"team_barrier",
                              [](const Call& c) {
                                put_right(c);
                                return device::team_barrier(c.group, c.state, "test",
                                                            static_cast<int>(c.team->handle));
                              },
                              from_left, false, false};
/// A collective whose arguments are checked.
const Collective kCheckedFcollect{"fcollect, checked",
                                  [](const Call& c) {
                                    return api::fcollect({c.state, "test"}, c.group,
                                                         static_cast<int>(c.team->handle), c.dest,
                                                         c.source, {c.bytes, 1});
                                  },
                                  gathered, false, true};

/// Makes a tile of one row from the arrays.
device::TileCall tile_call(const Call& c, device::TileCall::Part part, bool for_all, bool ends) {
  const auto side = [](std::uint8_t* first) {
    return device::TileSide{reinterpret_cast<char*>(first), 0, 1};
  };
  return {&c.state, "test",  c.team, {side(c.dest), side(c.source), 1, c.bytes, 1, true},
          part,     for_all, ends};
}
using Part = device::TileCall::Part;
const Collective kPullTiles{"pull of tiles",
                            [](const Call& c) {
                              return device::reduce_tile<1>(
                                  c.group, tile_call(c, Part::kAll, false, false), Sum{});
                            },
                            reduced,
                            false,
                            false,
                            false,
                            false};
const Collective kPushTiles{"push of tiles",
                            [](const Call& c) {
                              const device::TileCall call = tile_call(c, Part::kShare, true, false);
                              const int status = device::reduce_tile<1>(c.group, call, Sum{});
                              return status != 0 ? status : device::end_tiles(c.group, call);
                            },
                            reduced, false, false};
const Collective kTilesInPlace{"tiles in place",
                               [](const Call& c) {
                                 return device::reduce_tile<1>(
                                     c.group, tile_call(c, Part::kShare, true, true), Sum{});
                               },
                               reduced,
                               false,
                               false,
                               true};
const Collective kGatherTiles{"allgather of tiles",
                              [](const Call& c) {
                                device::TileCall call = tile_call(c, Part::kAll, true, false);
                                call.tile.dst.first += static_cast<std::size_t>(c.me) * c.bytes;
                                (void)device::put_tile_to_members(c.group, call);
                                return device::end_tiles(c.group, call);
                              },
                              gathered, false, true};

/// The wait after a pull waits for no other PE, but it synchronizes: all lanes see after it what a
/// lane did before it.
const Collective kWaitForPull{
    "wait after a pull",
    [](const Call& c) {
      for (std::size_t i = static_cast<std::size_t>(c.group.size() - 1 - c.group.rank); i < c.bytes;
           i += static_cast<std::size_t>(c.group.size()))
        c.dest[i] = c.source[i];
      return api::tile_wait<gshmemx::NVLS_ONE_SHOT_PULL_NBI>({c.state, "test"}, c.group,
                                                             GSHMEM_TEAM_WORLD, 0);
    },
    [](const Call& c, std::size_t i, const Collective::Of& of) { return of(c.me, i); }, false,
    false};

/// Runs the calls of all PEs, one after the other with no synchronization between them.
class Rounds {
 public:
  /// Every run begins as if after `packets` collectives by packets; 0: after those of the last run.
  Rounds(const Shape& shape, const Collective& what, std::size_t bytes, std::uint32_t packets)
      : job_(shape), what_(what), bytes_(bytes), packets_(packets) {}

  /// Returns the first difference; empty: there is none.
  std::string run(const Late& late, When when) {
    wrong_.clear();
    first_ += calls();
    begun_.assign(static_cast<std::size_t>(job_.shape().pes), first_);
    if (packets_ != 0) job_.set_packets(packets_);
    const bool ended = lanes().run(
        job_.lanes(), [&](std::size_t i) { make_calls(i); }, late, when,
        [&] { return job_.step_nic(); });
    for (int pe = 0; pe < job_.shape().pes && wrong_.empty(); ++pe) {
      if (job_.is_stopped(pe)) wrong_ = "a fault of PE " + std::to_string(pe);
    }
    return !ended && wrong_.empty() ? "lanes wait for each other" : wrong_;
  }
  [[nodiscard]] const Job& job() const { return job_; }

 private:
  [[nodiscard]] std::uint64_t calls() const {
    return kCalls * static_cast<std::uint64_t>(job_.shape().groups);
  }
  void make_calls(std::size_t lane) {
    const LaneGroup group = job_.lane(lane);
    const int me = static_cast<int>(lane / job_.lanes_of_pe());
    const std::uint64_t groups = static_cast<std::uint64_t>(job_.shape().groups);
    const std::uint64_t own =
        lane % job_.lanes_of_pe() / static_cast<std::uint64_t>(job_.shape().lanes);
    std::uint64_t& begun = begun_[static_cast<std::size_t>(me)];
    for (std::uint64_t number = first_; number < first_ + calls() && wrong_.empty(); ++number) {
      if (number % groups != own) continue;
      // A group begins when any lane of the other group has returned.
      for (unsigned polls = 1; begun < number && wrong_.empty(); ++polls) lanes().pause(polls);
      make_call(group, me, own, number);
      if (groups == 1 || number / groups % 2 == static_cast<std::uint64_t>(group.rank))
        begun = number + 1;
    }
  }
  void make_call(const LaneGroup& group, int me, std::uint64_t own, std::uint64_t number) {
    auto* const memory = reinterpret_cast<std::uint8_t*>(job_.memory(me));
    Call call{job_.state(me),       group,
              &job_.team(me),       me,
              job_.shape().pes,     memory + (2 + number % 4) * kMost,
              memory + own * kMost, bytes_};
    if (what_.in_place) call.source = call.dest;
    const std::size_t n = static_cast<std::size_t>(call.n_pes);
    const std::size_t gives = bytes_ * (what_.gives_parts ? n : 1);
    for (std::size_t i = static_cast<std::size_t>(group.size() - 1 - group.rank); i < gives;
         i += static_cast<std::size_t>(group.size())) {
      call.source[i] = byte(me, number, i);
    }
    const int status = what_.make(call);
    if (status != 0) return note(call, number, "status " + std::to_string(status));
    const auto of = [&](int pe, std::size_t i) { return byte(pe, number, i); };
    for (std::size_t i = 0; i < bytes_ * (what_.gets_parts ? n : 1); ++i) {
      const std::uint8_t expected = what_.result(call, i, of);
      if (call.dest[i] == expected) continue;
      return note(call, number,
                  "byte " + std::to_string(i) + " is " + std::to_string(call.dest[i]) + ", not " +
                      std::to_string(expected));
    }
    if (!what_.frees_source)
      (void)device::team_sync(group, call.state, "test", static_cast<int>(call.team->handle));
  }
  void note(const Call& call, std::uint64_t number, const std::string& what) {
    if (!wrong_.empty()) return;
    wrong_ = "PE " + std::to_string(call.me) + ", lane " + std::to_string(call.group.rank) +
             ", call " + std::to_string(number - first_) + ": " + what;
  }

  Job job_;
  const Collective& what_;
  std::size_t bytes_;
  std::uint32_t packets_;
  std::uint64_t first_ = 0;
  std::vector<std::uint64_t> begun_;  ///< by PE: the call that may begin
  std::string wrong_;
};

/// Makes every lane late once at every point where it can stop. Ends with the first failure.
void test_late(const Shape& shape, const Collective& what, std::size_t bytes,
               std::uint32_t packets = 0) {
  Rounds rounds(shape, what, bytes, packets);
  const std::size_t lanes_of_all = rounds.job().lanes();
  const bool by_network = shape.domain < shape.pes;
  INFO(what.name << ", " << shape.name << ", " << bytes << " bytes");
  REQUIRE(rounds.run({lanes_of_all, 0, Late::Where::kAfterSync}, When::kAtOnce) == "");
  const unsigned syncs = lanes().syncs(0);
  const std::size_t next = rounds.job().lanes_of_pe();
  for (const std::size_t lane : {next - 1, next}) {
    for (unsigned after = 0; after < syncs; ++after) {
      for (const Late::Where where : {Late::Where::kAfterSync, Late::Where::kInWait}) {
        for (const When when : {When::kBeforeLate, When::kAfterLate}) {
          if (!by_network && when != When::kBeforeLate) continue;
          INFO("lane " << lane << " late after " << after << " of " << syncs << " syncs"
                       << (where == Late::Where::kInWait ? ", in a wait" : "") << ", NIC "
                       << static_cast<int>(when));
          REQUIRE(rounds.run({lane, after, where}, when) == "");
        }
      }
    }
  }
}

constexpr Shape kFlat{.name = "flat", .pes = 3, .lanes = 2, .groups = 1, .domain = 3, .flat = true};
constexpr Shape with(Shape shape, auto change) {
  change(shape);
  return shape;
}
constexpr Shape kInRounds = with(kFlat, [](Shape& s) { s.name = "in rounds", s.flat = false; });
constexpr Shape kListed = with(kFlat, [](Shape& s) { s.name = "listed", s.listed = true; });
constexpr Shape kPackets = with(kFlat, [](Shape& s) { s.name = "by packets", s.limit = 512; });
constexpr Shape kFourLanes = with(kPackets, [](Shape& s) { s.lanes = 4; });
constexpr Shape kNetwork = with(kFlat, [](Shape& s) { s.name = "by network", s.domain = 1; });
constexpr Shape kLevels =
    with(kFlat, [](Shape& s) { s.name = "in levels", s.pes = 4, s.domain = 2, s.levels = true; });
constexpr Shape two_groups(const Shape& shape) {
  return with(shape, [](Shape& s) { s.groups = 2; });
}

}  // namespace

TEST_CASE("syncs_and_barriers_hold_late_lanes") {
  for (const Shape& shape : {kFlat, kInRounds, kListed}) {
    for (const Shape& groups : {shape, two_groups(shape)}) {
      test_late(groups, kSyncAll, 6);
      test_late(groups, kTeamSync, 6);
    }
  }
  test_late(kNetwork, kBarrierAll, 4);
  test_late(kNetwork, kTeamBarrier, 4);
}
TEST_CASE("moves_hold_late_lanes") {
  for (const Shape& shape : {kFlat, kPackets, kNetwork}) {
    test_late(shape, kAlltoall, 44);
    test_late(shape, kBroadcast, 88);
    test_late(shape, kFcollect, 88);
  }
  for (const Shape& shape : {kFlat, kNetwork}) {
    test_late(shape, kAlltoalls, 4);
    test_late(shape, kCollect, 88);
  }
  test_late(two_groups(kPackets), kFcollect, 24);
  test_late(two_groups(kFlat), kCollect, 24);
  test_late(two_groups(kPackets), kCheckedFcollect, 24);
  // The flags wrap around there; the last lane clears packets of others, and sends none.
  test_late(kFourLanes, kFcollect, 24, 0x7ffffffe);
}
TEST_CASE("collectives_in_levels_hold_late_lanes") {
  test_late(kLevels, kBroadcast, 88);
  test_late(kLevels, kFcollect, 88);
  test_late(kLevels, kReduce, 200);
  test_late(kLevels, kReduceInPlace, 200);
}
TEST_CASE("reductions_hold_late_lanes") {
  for (const Shape& shape : {kFlat, kPackets, kNetwork}) {
    test_late(shape, kReduce, 100);
    test_late(shape, kReduceInPlace, 100);
    test_late(shape, kReducescatter, 40);
  }
  for (const Shape& shape : {kFlat, kNetwork}) {
    test_late(shape, kInscan, 19);
    test_late(shape, kInscanInPlace, 19);
  }
}
TEST_CASE("collectives_of_tiles_hold_late_lanes") {
  test_late(kFlat, kWaitForPull, 6);
  for (const Shape& shape : {kFlat, kNetwork}) {
    test_late(shape, kPullTiles, 6);
    test_late(shape, kPushTiles, 6);
    test_late(shape, kTilesInPlace, 6);
    test_late(shape, kGatherTiles, 6);
  }
}

// The first PE does not make the call.
TEST_CASE("all_lanes_learn_that_a_member_did_not_come") {
  const auto test = [](const Shape& shape, const Collective& what) {
    INFO(what.name << ", " << shape.name);
    Job job(shape);
    std::vector<int> status(job.lanes() - job.lanes_of_pe(), -1);
    const auto body = [&](std::size_t i) {
      const std::size_t lane = i + job.lanes_of_pe();
      const int me = static_cast<int>(lane / job.lanes_of_pe());
      auto* const memory = reinterpret_cast<std::uint8_t*>(job.memory(me));
      status[i] = what.make(
          {job.state(me), job.lane(lane), &job.team(me), me, shape.pes, memory + kMost, memory, 4});
    };
    REQUIRE(lanes().run(status.size(), body, {status.size(), 0, Late::Where::kAfterSync},
                        When::kAtOnce, [&] { return job.step_nic(); }));
    for (const int each : status) CHECK(each == GSHMEMX_ERROR_TIMEOUT);
  };
  for (const Shape& shape : {kFlat, kInRounds, kListed, kNetwork}) test(shape, kTeamSync);
  test(kPackets, kFcollect);
  test(kPackets, kReduce);
  test(kFlat, kCollect);
}

TEST_CASE("all_lanes_learn_that_a_member_makes_another_call") {
  Job job(kPackets);
  std::vector<int> status(job.lanes(), -1);
  const auto body = [&](std::size_t lane) {
    const int me = static_cast<int>(lane / job.lanes_of_pe());
    char* const memory = job.memory(me);
    status[lane] = api::fcollect({job.state(me), "test"}, job.lane(lane), GSHMEM_TEAM_WORLD,
                                 memory + kMost, memory, {me == 1 ? 6u : 5u, 1});
  };
  REQUIRE(lanes().run(status.size(), body, {status.size(), 0, Late::Where::kAfterSync},
                      When::kAtOnce, nullptr));
  // A member checks the member after it.
  CHECK(status == std::vector<int>{GSHMEMX_ERROR_SYMMETRY, GSHMEMX_ERROR_SYMMETRY,
                                   GSHMEMX_ERROR_SYMMETRY, GSHMEMX_ERROR_SYMMETRY, 0, 0});
}

}  // namespace gshmem::test

// Collectives by many blocks of every member: the functions that the library's kernels call, by
// blocks of a launch, also from host threads; and on streams, whose calls use such kernels from
// some size on.
#include "tests/spmd/stream.h"
#include "tests/spmd/teams.h"

#include <gshmem/device/collective/grid.h>

#include <cstring>
#include <memory>

using namespace gshmem;
using namespace gshmem::spmd;
using device::Call, device::CallKind;

namespace {

/// Small whole numbers, whose sums are exact.
GSHMEM_FN float number_of(int member, std::size_t i, std::uint64_t seed) {
  return static_cast<float>(mix(seed + static_cast<std::uint64_t>(member), i) % 64);
}

/// The operation of a call; `parts`: the source has one part for every member.
struct Shape {
  CallKind kind;
  bool in_one_shot, in_place;
  [[nodiscard]] bool has_parts() const {
    return kind == CallKind::kAlltoall || kind == CallKind::kReducescatter;
  }
  [[nodiscard]] bool collects() const {
    return kind == CallKind::kAlltoall || kind == CallKind::kFcollect;
  }
};
constexpr Shape kShapes[] = {
    {CallKind::kReduce, false, false},   {CallKind::kReduce, false, true},
    {CallKind::kReduce, true, false},    {CallKind::kReducescatter, false, false},
    {CallKind::kAlltoall, false, false}, {CallKind::kFcollect, false, false},
    {CallKind::kBroadcast, true, false}, {CallKind::kBroadcast, false, false},
    {CallKind::kBroadcast, false, true}};

/// `count` elements that one member sends to another, in arrays of this PE.
struct Arrays {
  float *dest, *source;
  std::size_t count;
};
constexpr int kRootMember = 1;

/// Returns element `i` of the result of member `me` of `n`.
float expected_at(const Shape& shape, std::size_t count, int me, int n, std::size_t i,
                  std::uint64_t seed) {
  const std::size_t mine = shape.has_parts() ? static_cast<std::size_t>(me) * count : 0;
  if (shape.collects()) return number_of(static_cast<int>(i / count), i % count + mine, seed);
  if (shape.kind == CallKind::kBroadcast) return number_of(kRootMember % n, i, seed);
  float sum = 0;
  for (int member = 0; member < n; ++member) sum += number_of(member, i + mine, seed);
  return sum;
}

void fill(Pe& pe, const Shape& shape, const Arrays& at, int me, int n, std::uint64_t seed) {
  const std::size_t length = at.count * (shape.has_parts() ? static_cast<std::size_t>(n) : 1);
  std::vector<std::uint8_t> bytes(length * sizeof(float));
  for (std::size_t i = 0; i < length; ++i) {
    const float number = number_of(me, i, seed);
    std::memcpy(bytes.data() + i * sizeof(float), &number, sizeof(float));
  }
  pe.write(at.source, bytes);
}
void check(Pe& pe, const Shape& shape, const Arrays& at, int me, int n, std::uint64_t seed,
           std::uint64_t tag) {
  const std::size_t length = at.count * (shape.collects() ? static_cast<std::size_t>(n) : 1);
  const std::vector<std::uint8_t> got = pe.read(at.dest, length * sizeof(float));
  for (std::size_t i = 0; i < length; ++i) {
    float number = 0;
    std::memcpy(&number, got.data() + i * sizeof(float), sizeof(float));
    const float right = expected_at(shape, at.count, me, n, i, seed);
    if (number != right) return pe.equal(__LINE__, number, right, tag * 10'000'000 + i);
  }
}

/// Runs on all blocks of the launch.
struct ByBlocks {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, Call call, bool in_one_shot) const {
    const device::State& state = ctx.state();
    call.name = "many blocks";
    const abi::Team* const team = device::find_team(state, call.name, "team", call.team);
    device::GridCall grid = device::grid_call(state, *team, call);
    grid.in_one_shot = in_one_shot ? 1 : 0;
    const device::GridPosition place{static_cast<std::uint32_t>(ctx.block_rank()),
                                     static_cast<std::uint32_t>(ctx.grid_size())};
    const int status =
        call.kind == CallKind::kReduce || call.kind == CallKind::kReducescatter
            ? device::reduce_by_grid<float>(device::Block{}, state, grid, place,
                                            call.kind == CallKind::kReducescatter,
                                            device::TypedReducer<device::ReduceOp::kSum, float>{})
            : device::move_by_grid(device::Block{}, state, call.kind, grid, place);
    SPMD_EQ(log, status, 0, call.bytes);
  }
};

bool maps_all(const Pe& pe) {
  bool all = pe.n() <= abi::kPacketPes;
  for (int to = 0; to < pe.n(); ++to) all = all && pe.maps(to);
  return all;
}
constexpr char kNoBlocks[] = "many blocks are for members that map each other, 16 at most";

/// Queues the call of `shape` in a stream.
int leave(const Shape& shape, gshmem_team_t team, const Arrays& at, int n, gshmemx_stream_t s) {
  switch (shape.kind) {
    case CallKind::kReduce:
      return gshmemx_float_sum_reduce_on_stream(team, at.dest, at.source, at.count, s);
    case CallKind::kReducescatter:
      return gshmemx_float_sum_reducescatter_on_stream(team, at.dest, at.source, at.count, s);
    case CallKind::kAlltoall:
      return gshmemx_float_alltoall_on_stream(team, at.dest, at.source, at.count, s);
    case CallKind::kFcollect:
      return gshmemx_float_fcollect_on_stream(team, at.dest, at.source, at.count, s);
    default:
      return gshmemx_float_broadcast_on_stream(team, at.dest, at.source, at.count, kRootMember % n,
                                               s);
  }
}

}  // namespace

SPMD_TEST(blocks_of_all_members_make_one_collective_whatever_their_number) {
  if (!maps_all(pe)) return pe.skip(kNoBlocks);
  const OwnTeam reversed = split(pe, GSHMEM_TEAM_WORLD, pe.n() - 1, -1, pe.n());
  const int n = pe.n(), me = n - 1 - pe.me();
  const std::size_t most = pe.on_gpu() ? 40'003 : 3'003, parts = static_cast<std::size_t>(n);
  SymmetricArray<float> memory(2 * (most + 4) * parts);
  std::uint64_t tag = 0;
  for (const unsigned blocks : {1u, 3u}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{19}, std::size_t{1'024}, most}) {
      // Shift in elements: there are no words of 16 bytes.
      for (const std::size_t shift : {0u, 1u}) {
        for (const Shape& shape : kShapes) {
          ++tag;
          if (!pe.draws()) continue;
          const std::uint64_t seed = mix(pe.seed(), tag);
          float* const source = memory.data() + shift;
          const Arrays at{shape.in_place ? source : source + (most + 4) * parts, source, count};
          fill(pe, shape, at, me, n, seed);
          pe.barrier();
          Call call = Call::collective(shape.kind, "", reversed.get(), at.dest, at.source,
                                       count * sizeof(float), kRootMember % n);
          pe.run({.blocks = blocks, .threads = pe.on_gpu() ? 96u : 2u}, ByBlocks{}, call,
                 shape.in_one_shot);
          check(pe, shape, at, me, n, seed, tag);
          pe.barrier();
        }
      }
    }
  }
}

SPMD_TEST(collectives_on_streams_of_any_size_return_the_results_of_a_sequential_model) {
  if (!pe.on_gpu()) return pe.skip(kNoStreams);
  if (streams_hold_each_other_up(pe)) return;
  // The teams have a stride, and a list of their members.
  Pes backwards(static_cast<std::size_t>(pe.n()));
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  const OwnTeam reversed = split(pe, GSHMEM_TEAM_WORLD, pe.n() - 1, -1, pe.n()),
                listed = team_of(pe, backwards, 0);
  const int n = pe.n(), me = n - 1 - pe.me();
  constexpr std::size_t kMost = 700'001;
  const auto parts = static_cast<std::size_t>(n);
  SymmetricArray<float> memory(2 * kMost * parts);
  const Stream stream(pe);
  std::uint64_t tag = 0;
  // The sizes are around the limits of packets and of one shot, and include some that are not
  // multiples of a word.
  for (const std::size_t count : {1'024ul, 1'025ul, 8'192ul, 65'536ul, 65'540ul, 65'541ul, kMost}) {
    for (const Shape& shape : kShapes) {
      ++tag;
      if (pe.on_network() && count > 9'000) continue;
      if (!pe.draws()) continue;
      const std::uint64_t seed = mix(pe.seed(), tag);
      const Arrays at{shape.in_place ? memory.data() : memory.data() + kMost * parts, memory.data(),
                      count};
      fill(pe, shape, at, me, n, seed);
      pe.barrier();
      const gshmem_team_t team = (tag % 2 == 0 ? reversed : listed).get();
      SPMD_EQ(pe, leave(shape, team, at, n, stream.get()), 0);
      SPMD_EQ(pe, gshmemx_team_sync_on_stream(team, stream.get()), 0);
      stream.finish();
      check(pe, shape, at, me, n, seed, tag);
      pe.barrier();
    }
  }
}

SPMD_TEST(collectives_of_several_teams_run_on_as_many_streams_at_once) {
  if (!pe.on_gpu()) return pe.skip(kNoStreams);
  if (streams_hold_each_other_up(pe)) return;
  constexpr std::size_t kCount = 300'000;
  const std::size_t n_streams = most_streams(pe, 4);
  const auto parts = static_cast<std::size_t>(pe.n());
  const std::size_t each = kCount * (parts + 1);
  SymmetricArray<float> memory(each * n_streams);
  std::vector<OwnTeam> teams;
  std::vector<std::unique_ptr<Stream>> streams;
  const Shape sum{CallKind::kReduce, false, true}, gather{CallKind::kFcollect, false, false};
  const auto arrays = [&](std::size_t k) {
    float* const source = memory.data() + k * each;
    return Arrays{source + kCount, source, kCount};
  };
  for (std::size_t k = 0; k < n_streams; ++k) {
    teams.push_back(split(pe, GSHMEM_TEAM_WORLD, 0, 1, pe.n()));
    streams.push_back(std::make_unique<Stream>(pe));
    fill(pe, gather, arrays(k), pe.me(), pe.n(), mix(pe.seed(), k));
  }
  pe.barrier();
  for (int round = 0; round < 20; ++round) {
    for (std::size_t at = 0; at < n_streams; ++at) {
      // Members begin with different streams.
      const std::size_t k = (at + static_cast<std::size_t>(pe.me())) % n_streams;
      const Arrays mine = arrays(k);
      SPMD_EQ(pe, leave(gather, teams[k].get(), mine, pe.n(), streams[k]->get()), 0);
      const Arrays all{mine.dest, mine.dest, kCount};
      if (round == 19) SPMD_EQ(pe, leave(sum, teams[k].get(), all, pe.n(), streams[k]->get()), 0);
    }
  }
  for (const auto& stream : streams) stream->finish();
  for (std::size_t k = 0; k < n_streams; ++k) {
    // The first part of the result is that of member 0: the sum over all.
    const std::vector<std::uint8_t> got = pe.read(arrays(k).dest, kCount * sizeof(float));
    for (std::size_t i = 0; i < kCount; ++i) {
      float number = 0;
      std::memcpy(&number, got.data() + i * sizeof(float), sizeof(float));
      const float right = static_cast<float>(pe.n()) * number_of(0, i, mix(pe.seed(), k));
      if (number != right) {
        pe.equal(__LINE__, number, right, i);
        break;
      }
    }
  }
  pe.barrier();
}

// Tiles against a sequential model: every call in every scope, with dense rows and others, with
// constant strides and others, cut off by a boundary or not; reductions by every algorithm, also in
// place, on teams of every shape.
#include "tests/spmd/teams.h"

#include <gshmem/tile.hpp>

#include <cstring>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

using gshmemx::make_layout;
using gshmemx::make_shape;
using gshmemx::make_stride;
using gshmemx::Tensor;

constexpr std::size_t kMost = 20;  ///< elements of a dimension
constexpr std::ptrdiff_t kAnywhere = 1000;

/// How the tiles of a case are passed to the call.
enum class Kind { kConstantStride, kRows, kGaps, kOneDimension };
constexpr Kind kKinds[] = {Kind::kConstantStride, Kind::kRows, Kind::kGaps, Kind::kOneDimension};

/// A tile of a source array and one of a destination.
struct TileCase {
  std::ptrdiff_t shape[2], src[2], dst[2];  ///< number of elements, and strides of both
  std::ptrdiff_t src_at, dst_at;            ///< offsets of the first elements in the arrays
  std::ptrdiff_t start[2], boundary[2];
  int bounded;  ///< dimensions that have a boundary
  Kind kind;
};

/// Returns the size of `n` tiles in the destination.
std::size_t room(int n) { return 4 * kMost * kMost * static_cast<std::size_t>(n) + 100; }

TileCase case_of(std::uint64_t seed, Kind kind, bool in_place = false) {
  Random random{seed};
  const auto below = [&](std::uint64_t bound) {
    return static_cast<std::ptrdiff_t>(random.below(bound));
  };
  // Sizes are often multiples of eight elements, for words of every width.
  const auto size = [&] { return below(2) == 0 ? 8 + 8 * below(2) : 1 + below(kMost); };
  const auto gap = [&] { return below(2) == 0 ? 8 * below(2) : below(4); };
  TileCase c{};
  c.kind = kind;
  c.shape[0] = size();
  c.shape[1] = kind == Kind::kOneDimension ? 1 : size();
  const auto strides = [&](std::ptrdiff_t(&stride)[2]) {
    const std::ptrdiff_t step = kind == Kind::kGaps ? 2 + below(2) : 1;
    const int along = kind == Kind::kRows || (kind == Kind::kGaps && below(2) == 0) ? 1 : 0;
    stride[along] = kind == Kind::kOneDimension ? 1 + below(3) : step;
    const std::ptrdiff_t row = (c.shape[along] + 7) / 8 * 8;
    stride[1 - along] = (below(2) == 0 ? row : c.shape[along]) * step + gap();
  };
  strides(c.src);
  strides(c.dst);
  c.src_at = gap();
  c.dst_at = gap();
  if (in_place) {
    std::copy_n(c.src, 2, c.dst);
    c.dst_at = c.src_at;
  }
  c.bounded = static_cast<int>(below(3));
  for (int k = 0; k < 2; ++k) {
    c.start[k] = below(30);
    c.boundary[k] = c.bounded > k ? c.start[k] - 1 + below(kMost + 4) : kAnywhere;
  }
  return c;
}

/// Calls `work(in source, in destination)` for the elements inside of the boundary.
template <class Work>
void for_elements(const TileCase& c, const Work& work) {
  for (std::ptrdiff_t i = 0; i < c.shape[0] && c.start[0] + i < c.boundary[0]; ++i) {
    for (std::ptrdiff_t j = 0; j < c.shape[1] && c.start[1] + j < c.boundary[1]; ++j) {
      work(static_cast<std::size_t>(c.src_at + i * c.src[0] + j * c.src[1]),
           static_cast<std::size_t>(c.dst_at + i * c.dst[0] + j * c.dst[1]));
    }
  }
}

/// Returns an element: small numbers, whose sums are exact in every type.
std::int64_t number(std::uint64_t seed, int pe, std::size_t at) {
  return static_cast<std::int64_t>(mix(seed, static_cast<std::uint64_t>(pe) << 32 | at) % 7) - 2;
}
template <class T>
T element(std::int64_t value) {
  T result{};
  if constexpr (device::kIsNarrow<T>) {
    device::narrow(static_cast<float>(value), result);
  } else if constexpr (device::kIsComplex<T>) {
    result.re = static_cast<double>(value);
  } else {
    result = static_cast<T>(value);
  }
  return result;
}
constexpr std::int64_t kOld = 5;

/// An array of every PE, and its expected contents.
template <class T>
class TileArray {
 public:
  TileArray(Pe& pe, int tiles) : pe_(pe), array_(room(tiles)), bytes_(room(tiles) * sizeof(T)) {}
  [[nodiscard]] T* data() const { return array_.data(); }
  /// Sets all elements to `value(at)`, also in the heap.
  template <class Value>
  void fill(const Value& value) {
    for (std::size_t at = 0; at < array_.size(); ++at) expect(at, value(at));
    pe_.write(array_.data(), bytes_);
  }
  void expect(std::size_t at, std::int64_t value) {
    const T result = element<T>(value);
    std::memcpy(bytes_.data() + at * sizeof(T), &result, sizeof(T));
  }
  void check(int line) { pe_.equal_bytes(line, pe_.read(array_.data(), bytes_.size()), bytes_); }

 private:
  Pe& pe_;
  SymmetricArray<T> array_;
  std::vector<std::uint8_t> bytes_;
};

// The calls of a scope, and a launch with one group of it.
#define TILE_SCOPE(NAME, SUFFIX, GPU_THREADS, CPU_THREADS)                                        \
  struct NAME {                                                                                   \
    static LaunchShape shape(const Pe& pe) {                                                      \
      return {.blocks = 1, .threads = pe.on_gpu() ? GPU_THREADS : CPU_THREADS};                   \
    }                                                                                             \
    template <class Src, class Dst, class Tuple>                                                  \
    GSHMEM_FN static int put(Src src, Dst dst, Tuple start, Tuple boundary, int pe) {             \
      return gshmemx::tile_put##SUFFIX<Src, Dst, Tuple, gshmemx::PEER_PUSH_NBI>(src, dst, start,  \
                                                                                boundary, pe, 0); \
    }                                                                                             \
    template <class Src, class Dst, class Tuple>                                                  \
    GSHMEM_FN static int get(Src src, Dst dst, Tuple start, Tuple boundary, int pe) {             \
      return gshmemx::tile_get##SUFFIX<Src, Dst, Tuple, gshmemx::REMOTE_PULL_NBI>(                \
          src, dst, start, boundary, pe, 0);                                                      \
    }                                                                                             \
    template <gshmemx::tile_coll_algo_t kAlgorithm>                                               \
    GSHMEM_FN static int wait(gshmem_team_t team) {                                               \
      return gshmemx::tile_collective_wait##SUFFIX<kAlgorithm>(team, 0);                          \
    }                                                                                             \
    template <class Src, class Dst, class Tuple>                                                  \
    GSHMEM_FN static int give(bool gather, gshmem_team_t team, Src src, Dst dst, Tuple start,     \
                              Tuple boundary) {                                                   \
      if (gather)                                                                                 \
        return gshmemx::tile_allgather##SUFFIX<Src, Dst, Tuple, gshmemx::NVLS_ONE_SHOT_PUSH_NBI>( \
            team, src, dst, start, boundary, 0);                                                  \
      return gshmemx::tile_broadcast##SUFFIX<Src, Dst, Tuple, gshmemx::NVLS_ONE_SHOT_PUSH_NBI>(   \
          team, src, dst, start, boundary, 0);                                                    \
    }                                                                                             \
    TILE_REDUCE(sum, SUFFIX)                                                                      \
    TILE_REDUCE(max, SUFFIX)                                                                      \
    TILE_REDUCE(min, SUFFIX)                                                                      \
  };
/// The variants of reductions.
enum class Way { kPull, kPullWithRoot, kPush, kPushOfRoot, kRooted };
constexpr Way kWays[] = {Way::kPull, Way::kPullWithRoot, Way::kPush, Way::kPushOfRoot,
                         Way::kRooted};
GSHMEM_FN bool is_push(Way way) { return way == Way::kPush || way == Way::kPushOfRoot; }
#define TILE_REDUCE(OP, SUFFIX)                                                             \
  template <class Tensor, class Tuple>                                                      \
  GSHMEM_FN static int OP(Way way, gshmem_team_t team, Tensor src, Tensor dst, Tuple start, \
                          Tuple boundary, int root) {                                       \
    constexpr auto kPull = gshmemx::NVLS_ONE_SHOT_PULL_NBI;                                 \
    constexpr auto kPush = gshmemx::NVLS_TWO_SHOT_PUSH_NBI;                                 \
    switch (way) {                                                                          \
      case Way::kPull:                                                                      \
        return gshmemx::tile_##OP##_reduce##SUFFIX<Tensor, Tensor, Tuple, kPull>(           \
            team, src, dst, start, boundary, 0);                                            \
      case Way::kPullWithRoot:                                                              \
        return gshmemx::tile_##OP##_reduce##SUFFIX<Tensor, Tensor, Tuple, kPull>(           \
            team, src, dst, start, boundary, root, 0);                                      \
      case Way::kPush:                                                                      \
        return gshmemx::tile_##OP##_reduce##SUFFIX<Tensor, Tensor, Tuple, kPush>(           \
            team, src, dst, start, boundary, 0);                                            \
      case Way::kPushOfRoot:                                                                \
        return gshmemx::tile_##OP##_reduce##SUFFIX<Tensor, Tensor, Tuple, kPush>(           \
            team, src, dst, start, boundary, root, 0);                                      \
      case Way::kRooted:                                                                    \
        break;                                                                              \
    }                                                                                       \
    return gshmemx::tile_##OP##_rooted_reduce##SUFFIX<Tensor, Tensor, Tuple, kPull>(        \
        team, src, dst, start, boundary, root, 0);                                          \
  }
TILE_SCOPE(ByThread, , 1u, 1u)
TILE_SCOPE(ByWarp, _warp, 32u, 4u)
TILE_SCOPE(ByWarpgroup, _warpgroup, 128u, 16u)
TILE_SCOPE(ByBlock, _block, 200u, 5u)
#undef TILE_REDUCE
#undef TILE_SCOPE

/// A tensor of a case with strides that are known at run time.
template <class T>
GSHMEM_FN auto tensor_of(T* array, std::ptrdiff_t at, const std::ptrdiff_t (&shape)[2],
                         const std::ptrdiff_t (&stride)[2]) {
  return Tensor(array + at,
                make_layout(make_shape(static_cast<int>(shape[0]), static_cast<int>(shape[1])),
                            make_stride(stride[0], stride[1])));
}

/// A put to the next PE, or a get from it.
template <class By, bool kPut>
struct MoveTiles {
  template <class Src, class Dst>
  GSHMEM_FN static int move(const TileCase& c, Src src, Dst dst, int pe) {
    struct Nothing {};
    const auto call = [&](auto start, auto boundary) {
      if constexpr (kPut) return By::put(src, dst, start, boundary, pe);
      return By::get(src, dst, start, boundary, pe);
    };
    if (c.bounded == 0) return call(Nothing{}, Nothing{});
    if (c.bounded == 1) return call(make_shape(c.start[0]), make_shape(c.boundary[0]));
    return call(make_shape(static_cast<int>(c.start[0]), static_cast<int>(c.start[1])),
                make_shape(static_cast<int>(c.boundary[0]), static_cast<int>(c.boundary[1])));
  }
  template <class T>
  GSHMEM_FN static int move_kind(const TileCase& c, T* from, T* to, int pe) {
    using gshmemx::ConstInt;
    if (c.kind == Kind::kConstantStride) {
      const auto of = [&](T* first, std::ptrdiff_t row) {
        return Tensor(first, make_layout(make_shape(c.shape[0], c.shape[1]),
                                         make_stride(ConstInt<1>{}, row)));
      };
      return move(c, of(from + c.src_at, c.src[1]), of(to + c.dst_at, c.dst[1]), pe);
    }
    if (c.kind == Kind::kOneDimension) {
      const auto of = [&](T* first, std::ptrdiff_t step) {
        return Tensor(first, make_layout(make_shape(c.shape[0]), make_stride(step)));
      };
      return move(c, of(from + c.src_at, c.src[0]), of(to + c.dst_at, c.dst[0]), pe);
    }
    return move(c, tensor_of(from, c.src_at, c.shape, c.src),
                tensor_of(to, c.dst_at, c.shape, c.dst), pe);
  }
  template <class T>
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, TileCase c, T* from, T* to) const {
    SPMD_EQ(log, move_kind(c, from, to, (ctx.my_pe() + 1) % ctx.n_pes()), 0);
    if (ctx.thread_rank() == 0) ctx.quiet();
  }
};

template <class By, class T>
void move_tiles(Pe& pe) {
  TileArray<T> source(pe, 1), dest(pe, 1);
  std::uint64_t round = 0;
  for (const Kind kind : kKinds) {
    for (int i = 0; i < std::max(pe.rounds(6), 2); ++i) {
      for (const bool put : {true, false}) {
        const TileCase c = case_of(mix(pe.seed(), ++round), kind);
        const std::uint64_t seed = mix(pe.seed(), round);
        source.fill([&](std::size_t at) { return number(seed, pe.me(), at); });
        dest.fill([](std::size_t) { return kOld; });
        pe.barrier();
        if (put) {
          pe.run(By::shape(pe), MoveTiles<By, true>{}, c, source.data(), dest.data());
        } else {
          pe.run(By::shape(pe), MoveTiles<By, false>{}, c, source.data(), dest.data());
        }
        pe.barrier();
        const int from = put ? pe.previous() : pe.next();
        for_elements(
            c, [&](std::size_t at, std::size_t to) { dest.expect(to, number(seed, from, at)); });
        dest.check(__LINE__);
        source.check(__LINE__);
      }
    }
  }
}

/// Returns this PE for an invalid team, as on PEs that are in none.
Pes members_or_me(const Pe& pe, gshmem_team_t team) {
  return team == GSHMEM_TEAM_INVALID ? Pes{pe.me()} : members(team);
}

/// An allgather, or a broadcast of member `root`. `grid` is the number of tiles of the destination
/// in each dimension.
template <class By>
struct GiveTiles {
  template <class T>
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, TileCase c, gshmem_team_t team,
                            T* from, T* to, bool gather, int root, int grid0, int grid1) const {
    const auto src = tensor_of(from, c.src_at, c.shape, c.src);
    const std::ptrdiff_t shape[2] = {c.shape[0] * grid0, c.shape[1] * grid1};
    const auto dst = tensor_of(to, c.dst_at, shape, c.dst);
    const auto start = make_shape(c.start[0], c.start[1]);
    const auto boundary = make_shape(c.boundary[0], c.boundary[1]);
    if (gather || ctx.team_my_pe(team) == root) {
      SPMD_EQ(log, By::give(gather, team, src, dst, start, boundary), 0);
    }
    SPMD_EQ(log, By::template wait<gshmemx::NVLS_ONE_SHOT_PUSH_NBI>(team), 0);
  }
};

template <class By>
void give_tiles(Pe& pe) {
  TileArray<float> source(pe, 1), dest(pe, pe.n());
  std::uint64_t round = 0;
  for (const OwnTeam& team : teams_of(pe)) {
    const Pes pes = members_or_me(pe, team.get());
    const int n = static_cast<int>(pes.size());
    for (const Kind kind : {Kind::kConstantStride, Kind::kRows, Kind::kGaps}) {
      for (const bool gather : {true, false}) {
        // Members of different teams have different numbers of rounds.
        const std::uint64_t seed = mix(pe.seed(), ++round);
        if (!pe.draws()) continue;
        TileCase c = case_of(seed, kind);
        const int along = kind == Kind::kRows ? 1 : 0;
        // The tiles are side by side, one after the other, or, if their number is even, in two
        // rows.
        const int wide = !gather ? 1 : round % 3 == 0 ? n : n % 2 == 0 && round % 3 == 1 ? 2 : 1;
        const int grid[2] = {along == 0 ? wide
                             : gather   ? n / wide
                                        : 1,
                             along == 1 ? wide
                             : gather   ? n / wide
                                        : 1};
        if (kind == Kind::kGaps) c.dst[0] = 2, c.dst[1] = 2 * c.shape[0] * grid[0] + 1;
        if (kind != Kind::kGaps) c.dst[1 - along] = c.shape[along] * wide + c.dst_at;
        const int root = static_cast<int>(seed % static_cast<std::uint64_t>(n));
        source.fill([&](std::size_t at) { return number(seed, pe.me(), at); });
        dest.fill([](std::size_t) { return kOld; });
        pe.barrier();
        const bool member = team.get() != GSHMEM_TEAM_INVALID;
        if (member) {
          pe.run(By::shape(pe), GiveTiles<By>{}, c, team.get(), source.data(), dest.data(), gather,
                 root, grid[0], grid[1]);
        }
        for (int i = 0; member && i < n; ++i) {
          if (!gather && i != root) continue;
          const std::ptrdiff_t places[2] = {i % wide * c.shape[along] * c.dst[along],
                                            i / wide * c.shape[1 - along] * c.dst[1 - along]};
          const auto first = static_cast<std::size_t>(gather ? places[0] + places[1] : 0);
          for_elements(c, [&](std::size_t at, std::size_t to) {
            dest.expect(first + to, number(seed, pes[static_cast<std::size_t>(i)], at));
          });
        }
        dest.check(__LINE__);
        pe.barrier();
      }
    }
  }
}

enum class Op { kSum, kMax, kMin };
std::int64_t combined(Op op, std::int64_t a, std::int64_t b) {
  return op == Op::kSum ? a + b : op == Op::kMax ? std::max(a, b) : std::min(a, b);
}

template <class By, Op kOp>
struct ReduceTiles {
  template <class T>
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, TileCase c, gshmem_team_t team,
                            T* from, T* to, Way way, int root) const {
    const auto src = tensor_of(from, c.src_at, c.shape, c.src);
    const auto dst = tensor_of(to, c.dst_at, c.shape, c.dst);
    const auto start = make_shape(c.start[0], c.start[1]);
    const auto boundary = make_shape(c.boundary[0], c.boundary[1]);
    int status = 0;
    if constexpr (kOp == Op::kSum) {
      status = By::sum(way, team, src, dst, start, boundary, root);
    } else if constexpr (kOp == Op::kMax) {
      status = By::max(way, team, src, dst, start, boundary, root);
    } else {
      status = By::min(way, team, src, dst, start, boundary, root);
    }
    SPMD_EQ(log, status, 0);
    if (is_push(way)) {
      SPMD_EQ(log, By::template wait<gshmemx::NVLS_TWO_SHOT_PUSH_NBI>(team), 0);
    } else {
      SPMD_EQ(log, By::template wait<gshmemx::NVLS_ONE_SHOT_PULL_NBI>(team), 0);
    }
    (void)ctx;
  }
};

/// In a scope its three operations take turns: together they test every variant on every team.
constexpr std::uint64_t kTurns = 3;

template <class By, Op kOp, class T>
void reduce_tiles(Pe& pe, std::uint64_t turn) {
  TileArray<T> source(pe, 1), dest(pe, 1);
  std::uint64_t round = 0;
  for (const OwnTeam& team : teams_of(pe)) {
    const Pes pes = members_or_me(pe, team.get());
    for (const Way way : kWays) {
      for (const bool in_place : {false, true}) {
        const std::uint64_t seed = mix(pe.seed() + 1, ++round);
        if (round % kTurns != turn || !pe.draws()) continue;
        const Kind kind = kKinds[seed % 3];
        const TileCase c = case_of(seed, kind, in_place);
        const int root = static_cast<int>(seed % pes.size());
        TileArray<T>& result = in_place ? source : dest;
        source.fill([&](std::size_t at) { return number(seed, pe.me(), at); });
        dest.fill([](std::size_t) { return kOld; });
        pe.barrier();
        const bool member = team.get() != GSHMEM_TEAM_INVALID;
        if (member) {
          pe.run(By::shape(pe), ReduceTiles<By, kOp>{}, c, team.get(), source.data(), result.data(),
                 way, root);
        }
        if (member && (way != Way::kRooted || pes[static_cast<std::size_t>(root)] == pe.me())) {
          for_elements(c, [&](std::size_t at, std::size_t to) {
            std::int64_t sum = number(seed, pes[0], at);
            for (std::size_t i = 1; i < pes.size(); ++i)
              sum = combined(kOp, sum, number(seed, pes[i], at));
            result.expect(to, sum);
          });
        }
        result.check(__LINE__);
        pe.barrier();  // others may be reading the source
        source.check(__LINE__);
        dest.check(__LINE__);
        pe.barrier();
      }
    }
  }
}

/// Every member is the root of a tile of its own, except the last one, which has none.
struct TilesOfTheirOwnRoot {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, TileCase c, int* from, int* to,
                            std::size_t tile) const {
    const int me = ctx.my_pe(), root = me == ctx.n_pes() - 1 ? ctx.n_pes() : me;
    const auto none = make_shape();
    const auto src =
        tensor_of(from + static_cast<std::size_t>(me) * tile, c.src_at, c.shape, c.src);
    const auto dst = tensor_of(to, c.dst_at, c.shape, c.dst);
    using Of = std::remove_cv_t<decltype(src)>;
    const int status =
        gshmemx::tile_sum_rooted_reduce_block<Of, Of, std::remove_cv_t<decltype(none)>,
                                              gshmemx::NVLS_ONE_SHOT_PULL_NBI>(
            GSHMEM_TEAM_WORLD, src, dst, none, none, root, 0);
    SPMD_EQ(log, status, 0);
  }
};

}  // namespace

SPMD_TEST(tiles_move_to_and_from_a_pe_in_every_scope) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  move_tiles<ByThread, float>(pe);
  move_tiles<ByWarp, std::uint8_t>(pe);
  move_tiles<ByWarpgroup, gshmem_complexd_t>(pe);
  move_tiles<ByBlock, gshmem_half_t>(pe);
}

SPMD_TEST(tiles_are_gathered_and_broadcast_in_every_scope) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  give_tiles<ByThread>(pe);
  give_tiles<ByWarp>(pe);
  give_tiles<ByWarpgroup>(pe);
  give_tiles<ByBlock>(pe);
}

SPMD_TEST(tiles_are_reduced_by_every_algorithm_in_every_scope) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  reduce_tiles<ByThread, Op::kSum, float>(pe, 0);
  reduce_tiles<ByThread, Op::kMax, gshmem_half_t>(pe, 1);
  reduce_tiles<ByThread, Op::kMin, int>(pe, 2);
  reduce_tiles<ByWarp, Op::kSum, gshmem_half_t>(pe, 0);
  reduce_tiles<ByWarp, Op::kMax, double>(pe, 1);
  reduce_tiles<ByWarp, Op::kMin, float>(pe, 2);
  reduce_tiles<ByWarpgroup, Op::kSum, gshmem_bfloat16_t>(pe, 0);
  reduce_tiles<ByWarpgroup, Op::kMax, float>(pe, 1);
  reduce_tiles<ByWarpgroup, Op::kMin, gshmem_half_t>(pe, 2);
  reduce_tiles<ByBlock, Op::kSum, float>(pe, 0);
  reduce_tiles<ByBlock, Op::kMax, std::int8_t>(pe, 1);
  reduce_tiles<ByBlock, Op::kMin, gshmem_bfloat16_t>(pe, 2);
}

SPMD_TEST(members_reduce_tiles_of_which_each_one_is_the_root) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  TileArray<int> source(pe, pe.n()), dest(pe, 1);
  const TileCase c = case_of(3, Kind::kRows);
  const std::size_t tile = room(1) - 100;
  source.fill([&](std::size_t at) { return number(1, pe.me(), at); });
  dest.fill([](std::size_t) { return kOld; });
  pe.barrier();
  pe.run(ByBlock::shape(pe), TilesOfTheirOwnRoot{}, c, source.data(), dest.data(), tile);
  pe.barrier();
  TileCase whole = c;
  whole.boundary[0] = whole.boundary[1] = kAnywhere;
  if (pe.me() != pe.n() - 1) {
    for_elements(whole, [&](std::size_t at, std::size_t to) {
      std::int64_t sum = 0;
      for (int from = 0; from < pe.n(); ++from)
        sum += number(1, from, static_cast<std::size_t>(pe.me()) * tile + at);
      dest.expect(to, sum);
    });
  }
  dest.check(__LINE__);
}

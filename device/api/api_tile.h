// The layer of device/api/api.h for tiles. It turns tensors into rows and strides in bytes, cuts
// them off at the end of the matrix, and checks arguments. Only gshmem/tile.hpp includes it, so
// that units without tiles compile faster.
#pragma once

#include <gshmem/tensor.hpp>

#include "api.h"
#include "../collective/tile.h"

namespace cutlass {  // these types replace those of CUDA with the same width
struct half_t;
struct bfloat16_t;
}  // namespace cutlass

namespace gshmem::api {

using ::gshmemx::tile_algo_t;
using ::gshmemx::tile_coll_algo_t;

template <class T>
struct TileElement {
  using type = T;
};
template <>
struct TileElement<cutlass::half_t> {
  using type = gshmem_half_t;
};
template <>
struct TileElement<cutlass::bfloat16_t> {
  using type = gshmem_bfloat16_t;
};

template <class T>
inline constexpr std::size_t kTupleSize = SIZE_MAX;  // for types that are not tuples
template <class... Ts>
inline constexpr std::size_t kTupleSize<tuples::tuple<Ts...>> = sizeof...(Ts);

/// Returns entry kDim of a tuple, if it has one.
template <std::size_t kDim, class Tuple>
GSHMEM_FN std::ptrdiff_t entry_of(const Tuple& tuple, std::ptrdiff_t otherwise) {
  if constexpr (kDim < kTupleSize<Tuple>) {
    return static_cast<std::ptrdiff_t>(tuples::get<kDim>(tuple));
  } else {
    return otherwise;
  }
}

/// Sizes or strides of the two dimensions; the other dimension of a one-dimensional tensor has one
/// element.
struct Pair {
  std::ptrdiff_t of[2];
};
template <class Tuple>
GSHMEM_FN Pair pair_of(const Tuple& tuple, std::ptrdiff_t otherwise) {
  static_assert(kTupleSize<Tuple> == 1 || kTupleSize<Tuple> == 2,
                "tiles have one or two dimensions");
  return {{entry_of<0>(tuple, otherwise), entry_of<1>(tuple, otherwise)}};
}
/// Returns the elements of dimension kDim before the boundary. An empty object, or a tuple without
/// that dimension, sets no boundary.
template <std::size_t kDim, class Tuple>
GSHMEM_FN std::ptrdiff_t inside(std::ptrdiff_t size, const Tuple& start, const Tuple& boundary) {
  static_assert(kTupleSize<Tuple> != SIZE_MAX || std::is_empty_v<Tuple>,
                "start_coord and boundary are tuples or empty");
  if constexpr (kTupleSize<Tuple> != SIZE_MAX && kDim < kTupleSize<Tuple>) {
    const std::ptrdiff_t left = entry_of<kDim>(boundary, 0) - entry_of<kDim>(start, 0);
    return left < 0 ? 0 : left < size ? left : size;
  }
  return size;
}

/// A tensor's elements as the layer sees them.
struct TileArgument {
  const char *name, *shape_name, *stride_name;
  char* data;
  Pair shape, stride;
  std::size_t size;
  GSHMEM_FN std::size_t count() const {
    return static_cast<std::size_t>(shape.of[0]) * static_cast<std::size_t>(shape.of[1]);
  }
  /// Returns the bytes from the first element to the end of the last one of `cut`.
  GSHMEM_FN std::size_t span(const Pair& cut) const {
    const std::ptrdiff_t last = (cut.of[0] - 1) * stride.of[0] + (cut.of[1] - 1) * stride.of[1] + 1;
    return static_cast<std::size_t>(last) * size;
  }
};
template <class Tensor>
GSHMEM_FN TileArgument argument_of(const char* name, const char* shape_name,
                                   const char* stride_name, const Tensor& tensor) {
  using T = typename Tensor::value_type;
  static_assert(std::is_trivially_copyable_v<T>, "elements are copied as bytes");
  return {name,
          shape_name,
          stride_name,
          const_cast<char*>(reinterpret_cast<const char*>(tensor.data())),
          pair_of(tensor.shape(), 1),
          pair_of(tensor.stride(), 0),
          sizeof(T)};
}

/// The arguments of all calls for tiles.
struct TileArguments {
  TileArgument src, dst;
  Pair cut;  ///< the part of the source inside of the boundary
  std::uint64_t flag;
  GSHMEM_FN bool is_empty() const { return cut.of[0] <= 0 || cut.of[1] <= 0; }
};
template <class Src, class Dst, class Tuple>
GSHMEM_FN TileArguments tile_arguments(const Src& src, const Dst& dst, const Tuple& start,
                                       const Tuple& boundary, std::uint64_t flag) {
  static_assert(std::is_same_v<std::remove_cv_t<typename Src::value_type>,
                               std::remove_cv_t<typename Dst::value_type>>,
                "source and destination have elements of one type");
  TileArguments tiles{argument_of("src", "src shape", "src stride", src),
                      argument_of("dst", "dst shape", "dst stride", dst),
                      {},
                      flag};
  tiles.cut = {{inside<0>(tiles.src.shape.of[0], start, boundary),
                inside<1>(tiles.src.shape.of[1], start, boundary)}};
  return tiles;
}

/// Reports a fault if arguments are checked; always returns its code.
GSHMEM_OUTLINE int refuse(const Caller& call, const char* argument, abi::Rule rule,
                          std::uint64_t value, std::uint64_t limit = 0) {
  if (kChecks) (void)bad_argument(call.state, call.name, argument, rule, value, limit);
  return GSHMEMX_ERROR_INVALID_VALUE;
}
/// Makes the checks that NVSHMEM also makes when checks are off. `parts` is the number of tiles of
/// the source in the destination.
GSHMEM_OUTLINE int check_tiles(const Caller& call, const TileArguments& tiles, int parts) {
  GSHMEM_ON_HOST_OPS({
    (void)ops;
    return GSHMEMX_ERROR_NOT_SUPPORTED;  // only kernels support it if heaps are on GPUs
  })
  if (tiles.flag != 0) return refuse(call, "flag", abi::Rule::kZero, tiles.flag);
  const TileArgument* const sides[] = {&tiles.src, &tiles.dst};
  for (const TileArgument* of : sides) {
    if (!of->data) return refuse(call, of->name, abi::Rule::kNotNull, 0, of->count() * of->size);
    for (int k = 0; k < 2; ++k) {
      if (of->shape.of[k] < 0)
        return refuse(call, of->shape_name, abi::Rule::kNotNegative,
                      static_cast<std::uint64_t>(of->shape.of[k]));
      if (of->shape.of[k] > static_cast<std::ptrdiff_t>(kMostTileBytes))
        return refuse(call, of->shape_name, abi::Rule::kOverflow,
                      static_cast<std::uint64_t>(of->shape.of[k]));
      if (of->stride.of[k] < 0)
        return refuse(call, of->stride_name, abi::Rule::kStride,
                      static_cast<std::uint64_t>(of->stride.of[k]));
    }
  }
  if (tiles.src.count() > kMostTileBytes / tiles.src.size)
    return refuse(call, "src", abi::Rule::kOverflow, tiles.src.count());
  const std::size_t wanted = tiles.src.count() * static_cast<std::size_t>(parts);
  if (tiles.dst.count() != wanted)
    return refuse(call, "dst", abi::Rule::kElements, tiles.dst.count(), wanted);
  return GSHMEMX_SUCCESS;
}
/// The cut of a tensor, which must be in the heap.
GSHMEM_FN Symmetric symmetric_tile(const TileArgument& of, const Pair& cut,
                                   std::size_t alignment = 1) {
  return {{of.name, of.data, {of.span(cut), 1}, alignment}};
}

/// Makes a tile. Rows are along the dimension in which both sides are dense, if there is one. Rows
/// that are contiguous on both sides are joined into one.
GSHMEM_OUTLINE Tile tile_of(const TileArguments& tiles) {
  const auto is_dense = [&](int k) {
    return (tiles.src.stride.of[k] == 1 && tiles.dst.stride.of[k] == 1) || tiles.cut.of[k] == 1;
  };
  const int along = is_dense(1) && (tiles.cut.of[1] != 1 || !is_dense(0)) ? 1 : 0;
  const auto size = static_cast<std::ptrdiff_t>(tiles.src.size);
  const auto side = [&](const TileArgument& of) {
    return TileSide{of.data, of.stride.of[1 - along] * size, of.stride.of[along] * size};
  };
  Tile tile{side(tiles.dst),
            side(tiles.src),
            static_cast<std::size_t>(tiles.cut.of[1 - along]),
            static_cast<std::size_t>(tiles.cut.of[along]),
            static_cast<std::uint32_t>(size),
            is_dense(along)};
  const auto row = static_cast<std::ptrdiff_t>(tile.row_bytes());
  if (tile.dense && tile.dst.row == row && tile.src.row == row) {
    tile.elements *= tile.rows;
    tile.rows = 1;
  }
  return tile;
}

/// Makes a put or get. `there` is the tensor at the PE.
template <bool kPut, class Coop>
GSHMEM_FN int move_tile(const Caller& call, Coop coop, const TileArguments& tiles, int pe) {
  const int status = check_tiles(call, tiles, 1);
  if (status != 0) return status;
  if (!check_arguments(call.state, call.name, ToPe{pe})) return GSHMEMX_ERROR_INVALID_VALUE;
  if (tiles.is_empty()) return GSHMEMX_SUCCESS;
  if (!check_arguments(call.state, call.name,
                       symmetric_tile(kPut ? tiles.dst : tiles.src, tiles.cut)))
    return GSHMEMX_ERROR_INVALID_VALUE;
  GSHMEM_FIT((&device::move_tile<kPut, Coop>), Coop, TileMove);
  return device::move_tile<kPut>(coop, TileMove{&call.state, tile_of(tiles), pe});
}

/// Returns the offset of member `member`'s tile in a destination that holds the tiles of all
/// members. They are side by side along the dimension in which both tensors are dense. When one
/// line of tiles is full, the next line begins.
GSHMEM_FN std::ptrdiff_t offset_of_member(const TileArguments& tiles, int member) {
  const bool second = tiles.src.stride.of[1] == 1 && tiles.dst.stride.of[1] == 1 &&
                      (tiles.src.stride.of[0] != 1 || tiles.dst.stride.of[0] != 1);
  const int along = second ? 1 : 0;
  const std::ptrdiff_t at = member * tiles.src.shape.of[along];
  const std::ptrdiff_t room = tiles.dst.shape.of[along];
  return at % room * tiles.dst.stride.of[along] +
         at / room * tiles.src.shape.of[1 - along] * tiles.dst.stride.of[1 - along];
}

/// An allgather, or a broadcast by the only member that makes the call.
template <bool kGather, tile_coll_algo_t kAlgorithm, class Coop>
GSHMEM_FN int put_tile_to_members(const Caller& call, Coop coop, int handle, TileArguments tiles) {
  static_assert(kAlgorithm == ::gshmemx::NVLS_ONE_SHOT_PUSH_NBI,
                "tiles are gathered and broadcast by NVLS_ONE_SHOT_PUSH_NBI");
  const abi::Team* const team = find_team(call.state, call.name, "team", handle);
  if (!team) return GSHMEMX_ERROR_INVALID_VALUE;
  const int status = check_tiles(call, tiles, kGather ? team->n_pes : 1);
  if (status != 0 || tiles.is_empty()) return status;
  if (kGather) {
    tiles.dst.data +=
        offset_of_member(tiles, team->my_pe) * static_cast<std::ptrdiff_t>(tiles.dst.size);
  }
  if (!check_arguments(call.state, call.name, symmetric_tile(tiles.dst, tiles.cut)))
    return GSHMEMX_ERROR_INVALID_VALUE;
  GSHMEM_FIT(&device::put_tile_to_members<Coop>, Coop, TileCall);
  return device::put_tile_to_members(coop, TileCall{&call.state, call.name, team, tile_of(tiles),
                                                    TileCall::Part::kAll, true, false});
}

/// Decides which members combine which part. With `kRooted` one member combines all for itself;
/// otherwise the algorithm decides. kNoRoot is for the second call of tile_..._reduce.
inline constexpr int kNoRoot = INT_MIN;
template <bool kRooted, tile_coll_algo_t kAlgorithm>
GSHMEM_FN void choose_part(TileCall& call, int root) {
  const bool is_root = root == call.team->my_pe;
  if (kRooted) {
    call.part = is_root ? TileCall::Part::kAll : TileCall::Part::kNone;
  } else if (kAlgorithm == ::gshmemx::NVLS_TWO_SHOT_PUSH_NBI) {
    call.for_all = true;
    call.part = root == kNoRoot ? TileCall::Part::kShare
                : is_root       ? TileCall::Part::kAll
                                : TileCall::Part::kNone;
  } else if (call.tile.dst.first == call.tile.src.first) {
    call.for_all = call.ends = true;  // after a pull, wait has nothing to wait for
    call.part = TileCall::Part::kShare;
  }
}
template <std::size_t kSize, class Coop, class Reducer>
GSHMEM_FN int reduce_tile_by(Coop coop, const TileCall& call, Reducer reducer) {
  GSHMEM_FIT((&device::reduce_tile<kSize, Coop, Reducer>), Coop, TileCall, Reducer);
  return device::reduce_tile<kSize>(coop, call, reducer);
}
template <bool kRooted, ReduceOp kOp, class T, tile_coll_algo_t kAlgorithm, class Coop>
GSHMEM_FN int reduce_tile(const Caller& call, Coop coop, int handle, const TileArguments& tiles,
                          int root) {
  constexpr bool kTwoShot = kAlgorithm == ::gshmemx::NVLS_TWO_SHOT_PUSH_NBI;
  static_assert(kAlgorithm == ::gshmemx::NVLS_ONE_SHOT_PULL_NBI || (kTwoShot && !kRooted),
                "tiles are reduced by NVLS_ONE_SHOT_PULL_NBI, with the result for all by "
                "NVLS_TWO_SHOT_PUSH_NBI, too");
  using Element = typename TileElement<std::remove_cv_t<T>>::type;
  const abi::Team* const team = find_team(call.state, call.name, "team", handle);
  if (!team) return GSHMEMX_ERROR_INVALID_VALUE;
  const int status = check_tiles(call, tiles, 1);
  if (status != 0) return status;
  if ((kRooted || kTwoShot) && root < 0 && root != kNoRoot)
    return refuse(call, "root", abi::Rule::kPe, as_value(root), as_value(int{team->n_pes}));
  if (!check_arguments(
          call.state, call.name,
          Symmetric{{"src",
                     tiles.src.data,
                     {tiles.is_empty() ? 0 : tiles.src.span(tiles.cut), 1},
                     sizeof(Element)}},
          Local{{"dst", tiles.dst.data, {tiles.is_empty() ? 0u : 1u, 1}, sizeof(Element)}}))
    return GSHMEMX_ERROR_INVALID_VALUE;
  TileCall of{&call.state, call.name, team, {}, TileCall::Part::kNone, false, false};
  if (!tiles.is_empty()) {
    of.tile = tile_of(tiles);
    of.part = TileCall::Part::kAll;
    choose_part<kRooted, kAlgorithm>(of, root);
    if (of.for_all && !check_arguments(call.state, call.name, symmetric_tile(tiles.dst, tiles.cut)))
      return GSHMEMX_ERROR_INVALID_VALUE;
  }
  return reduce_tile_by<sizeof(Element)>(coop, of, reducer_of<kOp, Element>());
}

template <tile_coll_algo_t kAlgorithm, class Coop>
GSHMEM_FN int tile_wait(const Caller& call, Coop coop, int handle, std::uint64_t flag) {
  static_assert(kAlgorithm == ::gshmemx::NVLS_ONE_SHOT_PUSH_NBI ||
                    kAlgorithm == ::gshmemx::NVLS_ONE_SHOT_PULL_NBI ||
                    kAlgorithm == ::gshmemx::NVLS_TWO_SHOT_PUSH_NBI,
                "no collective of tiles is made by NVLS_TWO_SHOT_PULL_NBI");
  GSHMEM_ON_HOST_OPS({
    (void)ops;
    return GSHMEMX_ERROR_NOT_SUPPORTED;
  })
  const abi::Team* const team = find_team(call.state, call.name, "team", handle);
  if (!team) return GSHMEMX_ERROR_INVALID_VALUE;
  if (flag != 0) return refuse(call, "flag", abi::Rule::kZero, flag);
  if (kAlgorithm == ::gshmemx::NVLS_ONE_SHOT_PULL_NBI) {
    fence_system();
    coop.sync();
    return GSHMEMX_SUCCESS;
  }
  GSHMEM_FIT(&device::end_tiles<Coop>, Coop, TileCall);
  return device::end_tiles(
      coop, TileCall{&call.state, call.name, team, {}, TileCall::Part::kNone, true, true});
}

}  // namespace gshmem::api

// Tiles: parts of matrices that a kernel transfers, gathers or reduces while it computes others.
// The calls are NVSHMEM's 3.8 (nvshmemx::tile_..., "Tile-based Collectives"), each for a thread, a
// _warp, a _warpgroup (four warps) or a _block. They are for units that nvcc compiles, and for
// kernels in CPU mode; nvshmem.h includes this header under nvcc. C++17.
//
// A tile is a Tensor (tensor.hpp) of one or two dimensions with any strides: `src` and `dst` have
// elements of one type, and the same number. Only the part of the source inside of the boundary is
// used: element i of a dimension where start_coord + i < boundary. Both are make_shape(...) of some
// or all dimensions; make_shape() or an empty object means no boundary. Words of up to 16 bytes are
// moved if both tensors have the same dimension with stride 1, and their rows are aligned to that
// size.
//
// Mapped PEs are reached by load and store, others by the network, a row at a time. `flag` is 0.
// All calls return a gshmemx_status: GSHMEMX_ERROR_INVALID_VALUE for null data, a flag, different
// numbers of elements, a negative stride, an invalid team. The rest is checked as in all calls
// (docs/guide.md, "Errors"). Host threads get GSHMEMX_ERROR_NOT_SUPPORTED if heaps are on GPUs.
#pragma once

#include "gshmem.h"
#include "tensor.hpp"

#include <gshmem/device/api/api_tile.h>

namespace gshmemx {

/// Makes a call's Caller, tiles and group, for the bodies of the functions below.
#define GSHMEM_TILE_CALLER(NAME) \
  const ::gshmem::api::Caller call = ::gshmem::api::ambient_caller("gshmemx::" GSHMEM_TEXT(NAME))
#define GSHMEM_TILES ::gshmem::api::tile_arguments(src, dst, start_coord, boundary, flag)
#define GSHMEM_TILE_TEMPLATE(ALGORITHM) \
  template <class src_tensor_t, class dst_tensor_t, class tuple_t, ALGORITHM algo>

/// put, get: Transfer the tile to or from `pe`; complete at quiet, as nbi calls are. The side at
/// the PE is symmetric.
#define GSHMEM_TILE_MOVE(STEM, SCOPE, GROUP, PUT)                                            \
  GSHMEM_TILE_TEMPLATE(tile_algo_t)                                                          \
  GSHMEM_FN int tile_##STEM##SCOPE(src_tensor_t src, dst_tensor_t dst, tuple_t start_coord,  \
                                   tuple_t boundary, int pe, uint64_t flag) {                \
    GSHMEM_TILE_CALLER(tile_##STEM##SCOPE);                                                  \
    return ::gshmem::api::move_tile<PUT>(call, ::gshmem::device::GROUP{}, GSHMEM_TILES, pe); \
  }
/// broadcast: One member alone puts the tile to all. allgather: Every member puts its tile to a
/// part of `dst` of its own: side by side along the dimension with stride 1, as many as fit, and
/// then after them. Both use NVLS_ONE_SHOT_PUSH_NBI, without a wait: the program must ensure that
/// `dst` may be written. The tiles are visible to all members after tile_collective_wait.
#define GSHMEM_TILE_TO_MEMBERS(STEM, SCOPE, GROUP, GATHER)                                         \
  GSHMEM_TILE_TEMPLATE(tile_coll_algo_t)                                                           \
  GSHMEM_FN int tile_##STEM##SCOPE(gshmem_team_t team, src_tensor_t src, dst_tensor_t dst,         \
                                   tuple_t start_coord, tuple_t boundary, uint64_t flag) {         \
    GSHMEM_TILE_CALLER(tile_##STEM##SCOPE);                                                        \
    return ::gshmem::api::put_tile_to_members<GATHER, algo>(call, ::gshmem::device::GROUP{}, team, \
                                                            GSHMEM_TILES);                         \
  }
/// sum, max, min: Combine the elements of all members in their order, after a sync of the team.
/// Halves and cutlass's types are rounded after each step. `src` is symmetric.
/// _reduce by NVLS_ONE_SHOT_PULL_NBI: every member combines all into its own `dst`, whatever the
/// root; the result is complete on return. If `dst` is `src`, each combines a share for all, and
/// all synchronize.
/// _reduce by NVLS_TWO_SHOT_PUSH_NBI: member `root` combines for all; without a root each combines
/// its share. `dst`, which may be `src`, is symmetric, and complete after tile_collective_wait.
/// _rooted_reduce by NVLS_ONE_SHOT_PULL_NBI: a member that names itself combines all into its own
/// `dst`. The others only synchronize; they may name another one, and pass another tile.
#define GSHMEM_TILE_REDUCE(STEM, SCOPE, GROUP, ROOTED, OP, ROOT_PARAM, ROOT)               \
  GSHMEM_TILE_TEMPLATE(tile_coll_algo_t)                                                   \
  GSHMEM_FN int tile_##STEM##SCOPE(gshmem_team_t team, src_tensor_t src, dst_tensor_t dst, \
                                   tuple_t start_coord, tuple_t boundary ROOT_PARAM,       \
                                   uint64_t flag) {                                        \
    GSHMEM_TILE_CALLER(tile_##STEM##SCOPE);                                                \
    return ::gshmem::api::reduce_tile<ROOTED, ::gshmem::device::ReduceOp::OP,              \
                                      typename src_tensor_t::value_type, algo>(            \
        call, ::gshmem::device::GROUP{}, team, GSHMEM_TILES, ROOT);                        \
  }
#define GSHMEM_TILE_ROOT , int root
#define GSHMEM_TILE_NO_ROOT
#define GSHMEM_TILE_REDUCES(NAME, OP, SCOPE, GROUP)                                  \
  GSHMEM_TILE_REDUCE(NAME##_reduce, SCOPE, GROUP, false, OP, GSHMEM_TILE_ROOT, root) \
  GSHMEM_TILE_REDUCE(NAME##_reduce, SCOPE, GROUP, false, OP, GSHMEM_TILE_NO_ROOT,    \
                     ::gshmem::api::kNoRoot)                                         \
  GSHMEM_TILE_REDUCE(NAME##_rooted_reduce, SCOPE, GROUP, true, OP, GSHMEM_TILE_ROOT, root)

/// collective_wait: Waits until the tiles of the group's calls by that algorithm on that team have
/// arrived: after a push by all members, which synchronize; after a pull by the group alone.
#define GSHMEM_TILE_CALLS(SCOPE, GROUP)                                                 \
  GSHMEM_TILE_MOVE(put, SCOPE, GROUP, true)                                             \
  GSHMEM_TILE_MOVE(get, SCOPE, GROUP, false)                                            \
  GSHMEM_TILE_TO_MEMBERS(broadcast, SCOPE, GROUP, false)                                \
  GSHMEM_TILE_TO_MEMBERS(allgather, SCOPE, GROUP, true)                                 \
  GSHMEM_TILE_REDUCES(sum, kSum, SCOPE, GROUP)                                          \
  GSHMEM_TILE_REDUCES(max, kMax, SCOPE, GROUP)                                          \
  GSHMEM_TILE_REDUCES(min, kMin, SCOPE, GROUP)                                          \
  template <tile_coll_algo_t algo>                                                      \
  GSHMEM_FN int tile_collective_wait##SCOPE(gshmem_team_t team, uint64_t flag) {        \
    GSHMEM_TILE_CALLER(tile_collective_wait##SCOPE);                                    \
    return ::gshmem::api::tile_wait<algo>(call, ::gshmem::device::GROUP{}, team, flag); \
  }
GSHMEM_TILE_CALLS(, Thread)
GSHMEM_TILE_CALLS(_warp, Warp)
GSHMEM_TILE_CALLS(_warpgroup, Warpgroup)
GSHMEM_TILE_CALLS(_block, Block)

#undef GSHMEM_TILE_CALLS
#undef GSHMEM_TILE_REDUCES
#undef GSHMEM_TILE_NO_ROOT
#undef GSHMEM_TILE_ROOT
#undef GSHMEM_TILE_REDUCE
#undef GSHMEM_TILE_TO_MEMBERS
#undef GSHMEM_TILE_MOVE
#undef GSHMEM_TILE_TEMPLATE
#undef GSHMEM_TILES
#undef GSHMEM_TILE_CALLER

}  // namespace gshmemx

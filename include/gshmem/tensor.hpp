// Tensors, as the tile calls of gshmem/tile.hpp accept them: memory with a shape and strides. Names
// and meaning are those of NVSHMEM 3.8 (device_host/nvshmem_tensor.h). Shapes and strides are
// tuples: CUDA's if nvcc compiles, otherwise the standard library's. C++17.
#pragma once

#include <limits.h>

#include "types.h"

#include <gshmem/device/core/machine.h>

#if defined(__CUDACC__)
#include <cuda/std/tuple>
#else
#include <tuple>
#endif

namespace gshmem::tuples {
#if defined(__CUDACC__)
using ::cuda::std::get;
using ::cuda::std::integral_constant;
using ::cuda::std::tuple;
using ::cuda::std::tuple_size;
#else
using std::get;
using std::integral_constant;
using std::tuple;
using std::tuple_size;
#endif
}  // namespace gshmem::tuples

namespace gshmemx {

/// A size or stride that is known when a kernel is compiled.
template <int kValue>
struct ConstInt : gshmem::tuples::integral_constant<int, kValue> {
  GSHMEM_FN constexpr operator int() const { return kValue; }
};

/// The elements in each dimension, and the elements between neighbours in it. Also coordinates: the
/// first element of a tile in its matrix, and the size of the matrix.
template <class... Sizes>
using shape = gshmem::tuples::tuple<Sizes...>;
template <class... Sizes>
using stride = gshmem::tuples::tuple<Sizes...>;
template <class... Sizes>
GSHMEM_FN constexpr shape<Sizes...> make_shape(const Sizes&... sizes) {
  return {sizes...};
}
template <class... Sizes>
GSHMEM_FN constexpr stride<Sizes...> make_stride(const Sizes&... sizes) {
  return {sizes...};
}

/// A shape with its strides.
template <class Shape, class Stride>
struct Layout {
  GSHMEM_FN constexpr Layout(const Shape& sizes = {}, const Stride& strides = {})
      : shape_(sizes), stride_(strides) {}
  GSHMEM_FN constexpr Shape shape() const { return shape_; }
  GSHMEM_FN constexpr Stride stride() const { return stride_; }

 private:
  Shape shape_;
  Stride stride_;
};
template <class Shape, class Stride>
GSHMEM_FN constexpr Layout<Shape, Stride> make_layout(const Shape& sizes, const Stride& strides) {
  return {sizes, strides};
}

/// Elements of T in any memory, with a Layout. It owns nothing.
template <class T, class LayoutOf>
struct Tensor {
  using value_type = T;
  using layout_type = LayoutOf;
  GSHMEM_FN constexpr Tensor(T* data, LayoutOf layout) : data_(data), layout_(layout) {}
  GSHMEM_FN constexpr Tensor(LayoutOf layout) : data_(nullptr), layout_(layout) {}
  GSHMEM_FN constexpr T* data() const { return data_; }
  GSHMEM_FN constexpr LayoutOf layout() const { return layout_; }
  GSHMEM_FN constexpr auto shape() const { return layout_.shape(); }
  GSHMEM_FN constexpr auto stride() const { return layout_.stride(); }

 private:
  T* data_;
  LayoutOf layout_;
};

/// How a collective of tiles is executed: which member moves what, and what its wait has to wait
/// for. In NVSHMEM the switch executes the last step (NVLS); in this library all members load and
/// store.
typedef enum {
  NVLS_ONE_SHOT_PUSH_NBI = 0,  ///< members store to all
  NVLS_ONE_SHOT_PULL_NBI = 1,  ///< members load from all
  NVLS_TWO_SHOT_PUSH_NBI = 2,  ///< one member loads from all, and stores to all
  NVLS_TWO_SHOT_PULL_NBI = 3,  ///< used by no call
  NVSHMEMI_TILE_COLL_ALGO_SENTINEL = INT_MAX
} tile_coll_algo_t;
/// How a tile is put or got. This library uses load and store if the PE is mapped, and otherwise
/// the network, whichever the program names.
typedef enum {
  PEER_PUSH_NBI = 0,
  PEER_PULL_NBI = 0,
  REMOTE_PUSH_NBI = 1,
  REMOTE_PULL_NBI = 1,
  NVSHMEMI_TILE_ALGO_SENTINEL = INT_MAX
} tile_algo_t;

}  // namespace gshmemx

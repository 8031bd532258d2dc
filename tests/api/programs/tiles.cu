// A program for NVSHMEM: kernels that reduce, gather, broadcast, put and get tiles of matrices,
// written with NVSHMEM's tensor header and types of CUTLASS.
#include <cuda/std/tuple>
#include <nvshmem.h>
#include <nvshmemx.h>
#include "device_host/nvshmem_tensor.h"
#include "device/tile/nvshmemx_tile_api.hpp"

#include <cuda_fp16.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace cutlass {  // as in cutlass/half.h
struct alignas(2) half_t {
  uint16_t storage;
};
}  // namespace cutlass

namespace {

constexpr int kRows = 64, kCols = 48, kTile = 16, kBlocks = 2;
using nvshmemx::tile_coll_algo_t;

/// Every block reduces tiles of a column-major matrix in its own team; the last tiles extend beyond
/// the matrix.
template <class T>
__global__ void reduce_tiles(nvshmem_team_t* teams, T* source, T* dest, int rows, int cols) {
  const nvshmem_team_t team = teams[blockIdx.x];
  const int across = (rows + kTile - 1) / kTile, all = across * ((cols + kTile - 1) / kTile);
  auto shape = nvshmemx::make_shape(ConstInt<kTile>{}, ConstInt<kTile>{});
  auto stride = nvshmemx::make_stride<ConstInt<1>, int>(ConstInt<1>{}, rows);
  auto layout = nvshmemx::make_layout(shape, stride);
  auto boundary = nvshmemx::make_shape<int, int>(rows, cols);
  for (int tile = blockIdx.x; tile < all; tile += gridDim.x) {
    const int first = tile % across * kTile, second = tile / across * kTile;
    auto start = nvshmemx::make_shape<int, int>(first, second);
    auto src = nvshmemx::Tensor<T, decltype(layout)>(source + first + second * rows, layout);
    auto dst = nvshmemx::Tensor<T, decltype(layout)>(dest + first + second * rows, layout);
    constexpr auto algo = tile_coll_algo_t::NVLS_TWO_SHOT_PUSH_NBI;
    const int status =
        nvshmemx::tile_sum_reduce_block<decltype(src), decltype(dst), decltype(boundary), algo>(
            team, src, dst, start, boundary, tile % nvshmem_team_n_pes(team), 0);
    if (status != NVSHMEMX_SUCCESS) __trap();
  }
  nvshmemx::tile_collective_wait_block<tile_coll_algo_t::NVLS_TWO_SHOT_PUSH_NBI>(team, 0);
}

using Shape2D = nvshmemx::shape<int64_t, int64_t>;
using Stride2D = nvshmemx::stride<int64_t, int64_t>;

/// Reduces a row-major matrix to one root, in blocks of rows.
template <class T>
__global__ void reduce_rows(nvshmem_team_t* teams, T* source, T* dest, Shape2D shape,
                            Stride2D strides, int64_t root) {
  auto [rows, cols] = shape;
  auto [stride0, stride1] = strides;
  const int64_t per_block = (rows + gridDim.x - 1) / gridDim.x, first = per_block * blockIdx.x;
  const int64_t mine = per_block < rows - first ? per_block : rows - first;
  auto layout = nvshmemx::make_layout(nvshmemx::make_shape(mine, cols), strides);
  auto src = nvshmemx::Tensor(source + stride0 * first, layout);
  auto dst = nvshmemx::Tensor(dest + stride0 * first, layout);
  auto none = nvshmemx::make_shape();
  constexpr auto algo = tile_coll_algo_t::NVLS_ONE_SHOT_PULL_NBI;
  nvshmemx::tile_sum_rooted_reduce_block<decltype(src), decltype(dst), decltype(none), algo>(
      teams[blockIdx.x], src, dst, none, none, root, 0);
  nvshmemx::tile_collective_wait<algo>(teams[blockIdx.x], 0);
  if (stride1 != 1) __trap();
}

/// Puts the columns of all PEs side by side, by one warp.
__global__ void gather(nvshmem_team_t team, float* source, float* dest, int rows) {
  struct empty {};
  const int n = nvshmem_team_n_pes(team);
  auto src = nvshmemx::Tensor(
      source, nvshmemx::make_layout(nvshmemx::make_shape(rows, 1), nvshmemx::make_stride(1, rows)));
  auto dst = nvshmemx::Tensor(
      dest, nvshmemx::make_layout(nvshmemx::make_shape(rows, n), nvshmemx::make_stride(1, rows)));
  constexpr auto algo = tile_coll_algo_t::NVLS_ONE_SHOT_PUSH_NBI;
  nvshmemx::tile_allgather_warp<decltype(src), decltype(dst), empty, algo>(team, src, dst, empty{},
                                                                           empty{}, 0);
  nvshmemx::tile_collective_wait_warp<algo>(team, 0);
}

/// Puts a tile to the next PE, and gets it back.
__global__ void there_and_back(__half* source, __half* there, __half* back, int rows, int cols) {
  struct empty {};
  const int next = (nvshmem_my_pe() + 1) % nvshmem_n_pes();
  auto layout = nvshmemx::make_layout(nvshmemx::make_shape(rows, cols),
                                      nvshmemx::make_stride(cols, ConstInt<1>{}));
  using Matrix = nvshmemx::Tensor<__half, decltype(layout)>;
  nvshmemx::tile_put_warpgroup<Matrix, Matrix, empty, nvshmemx::tile_algo_t::PEER_PUSH_NBI>(
      Matrix(source, layout), Matrix(there, layout), empty{}, empty{}, next, 0);
  nvshmem_quiet();
  __syncthreads();
  nvshmemx::tile_get_warpgroup<Matrix, Matrix, empty, nvshmemx::tile_algo_t::PEER_PULL_NBI>(
      Matrix(there, layout), Matrix(back, layout), empty{}, empty{}, next, 0);
  nvshmem_quiet();
}

template <class T>
T* matrix(const std::vector<T>& values) {
  T* memory = static_cast<T*>(nvshmem_malloc(values.size() * sizeof(T)));
  if (cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyDefault) !=
      cudaSuccess)
    std::abort();
  return memory;
}
template <class T>
std::vector<T> values_of(const T* memory, size_t count) {
  std::vector<T> values(count);
  if (cudaDeviceSynchronize() != cudaSuccess) std::abort();
  nvshmem_barrier_all();
  cudaMemcpy(values.data(), memory, count * sizeof(T), cudaMemcpyDefault);
  nvshmem_barrier_all();
  return values;
}
bool wrong(const char* what, size_t at, float got, float wanted) {
  if (got == wanted) return false;
  std::printf("%s: element %zu is %g, not %g\n", what, at, got, wanted);
  return true;
}

}  // namespace

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::printf("skipped: tiles needs a GPU\n");
    return 77;
  }
  nvshmem_init();
  const int mype = nvshmem_my_pe(), npes = nvshmem_n_pes();
  cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % gpus);
  nvshmem_team_t made[kBlocks], *teams = nullptr;
  for (nvshmem_team_t& team : made)
    nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 1, npes, nullptr, 0, &team);
  cudaMalloc(&teams, sizeof(made));
  cudaMemcpy(teams, made, sizeof(made), cudaMemcpyDefault);

  constexpr size_t kCount = size_t{kRows} * kCols;
  const float all = static_cast<float>(npes * (npes + 1) / 2), mine = static_cast<float>(mype + 1);
  int errors = 0;
  // The matrix has five rows and three columns less than whole tiles.
  const int rows = kRows - 5, cols = kCols - 3;
  const size_t count = static_cast<size_t>(rows) * cols;
  float* floats = matrix(std::vector<float>(kCount, mine));
  float* sums = matrix(std::vector<float>(kCount, -1.f));
  nvshmem_barrier_all();
  void* args[] = {&teams, &floats, &sums, const_cast<int*>(&rows), const_cast<int*>(&cols)};
  if (nvshmemx_collective_launch(reinterpret_cast<const void*>(&reduce_tiles<float>), dim3(kBlocks),
                                 dim3(256), args, 0, 0) != 0)
    return 1;
  const std::vector<float> reduced = values_of(sums, kCount);
  for (size_t i = 0; i < kCount; ++i)
    errors += wrong("tile_sum_reduce_block", i, reduced[i], i < count ? all : -1.f);

  __half* halves = matrix(std::vector<__half>(kCount, __float2half(mine)));
  __half* rooted = matrix(std::vector<__half>(kCount, __float2half(-1.f)));
  nvshmem_barrier_all();
  reduce_rows<cutlass::half_t><<<kBlocks, 128>>>(
      teams, reinterpret_cast<cutlass::half_t*>(halves), reinterpret_cast<cutlass::half_t*>(rooted),
      Shape2D{kRows, kCols}, Stride2D{kCols, 1}, npes - 1);
  const std::vector<__half> at_root = values_of(rooted, kCount);
  for (size_t i = 0; i < kCount; ++i) {
    errors += wrong("tile_sum_rooted_reduce_block", i, __half2float(at_root[i]),
                    mype == npes - 1 ? all : -1.f);
  }

  float* gathered = matrix(std::vector<float>(static_cast<size_t>(kRows) * npes, -1.f));
  nvshmem_barrier_all();
  gather<<<1, 32>>>(NVSHMEM_TEAM_WORLD, floats, gathered, kRows);
  const std::vector<float> columns = values_of(gathered, static_cast<size_t>(kRows) * npes);
  for (size_t i = 0; i < columns.size(); ++i)
    errors += wrong("tile_allgather_warp", i, columns[i], static_cast<float>(i / kRows + 1));

  __half* back = matrix(std::vector<__half>(kCount, __float2half(-1.f)));
  there_and_back<<<1, 128>>>(halves, rooted, back, kRows, kCols);
  const std::vector<__half> returned = values_of(back, kCount), arrived = values_of(rooted, kCount);
  for (size_t i = 0; i < kCount; ++i) {
    errors += wrong("tile_get_warpgroup", i, __half2float(returned[i]), mine);
    errors += wrong("tile_put_warpgroup", i, __half2float(arrived[i]),
                    static_cast<float>((mype + npes - 1) % npes + 1));
  }
  std::printf("%d of %d: %d errors\n", mype, npes, errors);
  nvshmem_barrier_all();
  nvshmem_finalize();
  return errors == 0 ? 0 : 1;
}

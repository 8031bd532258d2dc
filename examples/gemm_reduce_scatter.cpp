// C = A B with the inner dimension divided over the PEs: each multiplies its columns of A by its
// rows of B, and the partial products are added, each part of C on one PE. A block sends its tile
// as soon as it is computed, so the network transfers it while the next tile is computed. Tiles of
// other PEs come first, a PE's own tiles last.
//   mpirun -np 4 bin/gemm_reduce_scatter     or as threads: bin/gemm_reduce_scatter 4
#include <gshmem/gshmem.hpp>

#include <cstdio>
#include <cstdlib>

constexpr int kTile = 16,
              kInner = 64;  // a tile of C is kTile x kTile; a PE has kInner columns of A
constexpr int kTileRows = 2, kTileCols = 8;  // tiles of C that a PE receives
constexpr int kTiles = kTileRows * kTileCols, kCells = kTile * kTile, kCols = kTileCols * kTile;

// Small integers: sums are exact.
GSHMEM_FN float a_of(int row, int k) { return static_cast<float>((row * 3 + k * 5) % 7 - 3); }
GSHMEM_FN float b_of(int k, int col) { return static_cast<float>((k * 2 + col * 11) % 5 - 2); }

struct GemmReduceScatter {
  // `mine` is this PE's part of every tile of C. `inbox` is [tile of this PE][source]. `arrived`
  // has the signals of this PE's tiles.
  GSHMEM_FN void operator()(gshmem::LaunchContext ctx, const float* a, const float* b, float* mine,
                            float* inbox, std::uint64_t* arrived, float* c) const {
    const gshmem::Block block = ctx.block();
    const int me = ctx.my_pe(), n = ctx.n_pes();
    for (int i = ctx.block_rank(); i < n * kTiles; i += ctx.grid_size()) {
      const int owner = (me + 1 + i / kTiles) % n, tile = i % kTiles;
      float* const part = mine + (owner * kTiles + tile) * kCells;
      multiply(block, a, b, owner, tile, part);
      block.sync();
      if (owner != me) {
        ctx.put_signal_nbi(block, inbox + (tile * n + me) * kCells, part, kCells,
                           {arrived + tile, 1, gshmem::Signal::kAdd}, owner);
      }
    }
    // A PE's own tiles come last, and a block adds the tiles that it computed itself.
    for (int i = ctx.block_rank(); i < n * kTiles; i += ctx.grid_size()) {
      if ((me + 1 + i / kTiles) % n != me) continue;
      const int tile = i % kTiles;
      if (block.thread_rank() == 0) {
        ctx.signal_wait_until(arrived + tile, gshmem::Cmp::kGe, static_cast<std::uint64_t>(n - 1));
      }
      block.sync();
      for (int cell = block.thread_rank(); cell < kCells; cell += block.size()) {
        float sum = 0;
        for (int pe = 0; pe < n; ++pe) {  // in a fixed order, whichever arrived first
          sum += pe == me ? mine[(me * kTiles + tile) * kCells + cell]
                          : inbox[(tile * n + pe) * kCells + cell];
        }
        c[tile * kCells + cell] = sum;
      }
    }
    ctx.quiet();
  }

  GSHMEM_FN static void multiply(gshmem::Block block, const float* a, const float* b, int owner,
                                 int tile, float* part) {
    for (int cell = block.thread_rank(); cell < kCells; cell += block.size()) {
      const int row = (owner * kTileRows + tile / kTileCols) * kTile + cell / kTile;
      const int col = tile % kTileCols * kTile + cell % kTile;
      float sum = 0;
      for (int k = 0; k < kInner; ++k) sum += a[row * kInner + k] * b[k * kCols + col];
      part[cell] = sum;
    }
  }
};

void run(const gshmem::Runtime& runtime) {
  const int me = runtime.my_pe(), n = runtime.n_pes(), rows = n * kTileRows * kTile;
  const auto pes = static_cast<std::size_t>(n);
  gshmem::SymmetricArray<float> a(static_cast<std::size_t>(rows) * kInner), b(kInner * kCols),
      c(kTiles * kCells), mine(pes * kTiles * kCells), inbox(pes * kTiles * kCells);
  gshmem::SymmetricArray<std::uint64_t> arrived(kTiles);
  std::vector<float> left(a.size()), right(b.size());
  for (int i = 0; i < rows * kInner; ++i)
    left[static_cast<std::size_t>(i)] = a_of(i / kInner, me * kInner + i % kInner);
  for (int i = 0; i < kInner * kCols; ++i)
    right[static_cast<std::size_t>(i)] = b_of(me * kInner + i / kCols, i % kCols);
  a.write(left, me);
  b.write(right, me);

  const bool gpu = runtime.on_gpu();
  gshmem::launch({.blocks = gpu ? 32u : 2u, .threads = gpu ? 256u : 2u}, GemmReduceScatter{},
                 a.data(), b.data(), mine.data(), inbox.data(), arrived.data(), c.data());
  gshmem::synchronize();

  const std::vector<float> got = c.to_vector(me);
  for (int i = 0; i < kTiles * kCells; ++i) {
    const int tile = i / kCells, cell = i % kCells;
    const int row = (me * kTileRows + tile / kTileCols) * kTile + cell / kTile;
    const int col = tile % kTileCols * kTile + cell % kTile;
    float want = 0;
    for (int k = 0; k < n * kInner; ++k) want += a_of(row, k) * b_of(k, col);
    if (got[static_cast<std::size_t>(i)] != want)
      throw std::runtime_error("cell " + std::to_string(i) + " is wrong");
  }
  if (me == 0)
    std::printf("gemm_reduce_scatter: %d x %d x %d on %d PEs, C correct\n", rows, n * kInner, kCols,
                n);
}

int main(int argc, char** argv) {
  try {
    argc > 1 ? gshmem::run_threads(std::atoi(argv[1]), run) : run(gshmem::Runtime());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gemm_reduce_scatter: %s\n", error.what());
    return 1;
  }
  return 0;
}

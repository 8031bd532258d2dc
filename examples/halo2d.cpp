// Jacobi iteration on a 2-D grid of PEs. Each owns a tile with a frame of halo cells and, after
// each step, stores its edges into the halos of up to four neighbours: rows by put_signal, columns
// by a strided iput, fence and signal. Any number of PEs: n = px * py, as square as it goes.
//   mpirun -np 6 bin/halo2d     or as threads: bin/halo2d 6
#include <gshmem/gshmem.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

constexpr int kTile = 32, kPitch = kTile + 2, kCells = kPitch * kPitch, kSteps = 200;

struct Grid {
  int px, py;
  explicit Grid(int n) : px(1), py(n) {
    for (int d = 2; d * d <= n; ++d) {
      if (n % d == 0) px = d, py = n / d;
    }
  }
  /// Returns the PE at a position of the grid, -1 outside.
  GSHMEM_FN int pe(int x, int y) const {
    return x >= 0 && x < px && y >= 0 && y < py ? y * px + x : -1;
  }
};

// Version s of the tile is u[s % 2]. A halo of version s is overwritten with version s + 2 only by
// a neighbour that has our version s + 1, which we computed after reading it: the signals that
// bring the data are the only flow control needed.
struct Jacobi {
  using Tile = double[kPitch][kPitch];

  GSHMEM_FN void operator()(gshmem::LaunchContext ctx, Grid grid, Tile* u,
                            std::uint64_t* arrived) const {
    const gshmem::Block block = ctx.block();
    const bool leader = block.thread_rank() == 0;
    const int x = ctx.my_pe() % grid.px, y = ctx.my_pe() / grid.px;
    const int up = grid.pe(x, y - 1), down = grid.pe(x, y + 1);
    const int left = grid.pe(x - 1, y), right = grid.pe(x + 1, y);
    const int neighbour[4] = {up, down, left, right};  // arrived[i] is written by neighbour[i] only

    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      const Tile& old = u[(step - 1) % 2];
      Tile& now = u[step % 2];
      for (int i = block.thread_rank(); i < kTile * kTile; i += block.size()) {
        const int r = i / kTile + 1, c = i % kTile + 1;
        now[r][c] = 0.25 * (old[r - 1][c] + old[r + 1][c] + old[r][c - 1] + old[r][c + 1]);
      }
      block.sync();
      // Our first row is the lower halo of the PE above us, and so on.
      if (up >= 0)
        ctx.put_signal(block, &now[kTile + 1][1], &now[1][1], kTile, {arrived + 1, step}, up);
      if (down >= 0)
        ctx.put_signal(block, &now[0][1], &now[kTile][1], kTile, {arrived + 0, step}, down);
      const gshmem::device::Strides column{kPitch, kPitch, kTile};
      if (left >= 0) ctx.iput(block, &now[1][kTile + 1], &now[1][1], column, left);
      if (right >= 0) ctx.iput(block, &now[1][0], &now[1][kTile], column, right);
      if (leader) {
        ctx.fence();  // the columns before their signals
        if (left >= 0) ctx.signal({arrived + 3, step}, left);
        if (right >= 0) ctx.signal({arrived + 2, step}, right);
        for (int i = 0; i < 4; ++i) {
          if (neighbour[i] >= 0) ctx.signal_wait_until(arrived + i, gshmem::Cmp::kGe, step);
        }
      }
      block.sync();
    }
  }
};

// Computes the whole grid, including its frame, on one CPU; the top side is hot.
std::vector<double> serial(int rows, int cols) {
  const int pitch = cols + 2;
  std::vector<double> old(static_cast<std::size_t>((rows + 2) * pitch));
  std::fill_n(old.begin(), pitch, 1.0);
  std::vector<double> now = old;
  for (int step = 0; step < kSteps; ++step) {
    for (int r = 1; r <= rows; ++r) {
      for (int c = 1; c <= cols; ++c) {
        const double* at = &old[static_cast<std::size_t>(r * pitch + c)];
        now[static_cast<std::size_t>(r * pitch + c)] =
            0.25 * (at[-pitch] + at[pitch] + at[-1] + at[1]);
      }
    }
    old.swap(now);
  }
  return old;
}

void run(const gshmem::Runtime& runtime) {
  const int me = runtime.my_pe();
  const Grid grid(runtime.n_pes());
  const int x = me % grid.px, y = me / grid.px;
  gshmem::SymmetricArray<double> u(2 * kCells);
  gshmem::SymmetricArray<std::uint64_t> arrived(4);
  const std::vector<double> hot(kPitch, 1.0);
  for (std::size_t version = 0; y == 0 && version < 2; ++version) {
    u.write(hot, me, version * kCells);
  }
  gshmem_barrier_all();  // before the first edges of a neighbour arrive

  gshmem::launch({.blocks = 1, .threads = runtime.on_gpu() ? 256u : 2u}, Jacobi{}, grid,
                 reinterpret_cast<Jacobi::Tile*>(u.data()), arrived.data());
  gshmem::synchronize();

  const std::vector<double> want = serial(grid.py * kTile, grid.px * kTile), got = u.to_vector(me);
  double worst = 0;
  for (int r = 1; r <= kTile; ++r) {
    for (int c = 1; c <= kTile; ++c) {
      const int global = (y * kTile + r) * (grid.px * kTile + 2) + x * kTile + c;
      const double mine = got[static_cast<std::size_t>(kSteps % 2 * kCells + r * kPitch + c)];
      worst = std::fmax(worst, std::fabs(mine - want[static_cast<std::size_t>(global)]));
    }
  }
  if (!(worst <= 1e-12)) throw std::runtime_error("differs from the serial solution");
  std::printf("halo2d: PE %d of %d x %d: %d steps, largest difference %.1e\n", me, grid.px, grid.py,
              kSteps, worst);
}

int main(int argc, char** argv) {
  try {
    argc > 1 ? gshmem::run_threads(std::atoi(argv[1]), run) : run(gshmem::Runtime());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "halo2d: %s\n", error.what());
    return 1;
  }
  return 0;
}

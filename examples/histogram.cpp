// A histogram whose bins are divided over the PEs: every thread of every PE counts its samples on
// the PE that has the bin, by atomics whose results are not awaited.
//   mpirun -np 4 bin/histogram     or as threads: bin/histogram 4
#include <gshmem/gshmem.hpp>

#include <cstdio>
#include <cstdlib>

constexpr int kBins = 1000, kSamples = 20000;  // bins in all, samples of each PE

GSHMEM_FN int bin_of(int pe, int sample) {
  std::uint32_t x = static_cast<std::uint32_t>(pe * kSamples + sample) * 2654435761u;
  x ^= x >> 15;
  return static_cast<int>(x * 2246822519u % kBins);
}

// Bin b is word b / n of PE b % n.
struct Count {
  GSHMEM_FN void operator()(gshmem::LaunchContext ctx, std::uint64_t* bins) const {
    const gshmem::Block block = ctx.block();
    const int me = ctx.my_pe(), n = ctx.n_pes();
    const int step = ctx.grid_size() * block.size();
    for (int i = ctx.block_rank() * block.size() + block.thread_rank(); i < kSamples; i += step) {
      const int bin = bin_of(me, i);
      ctx.atomic_add(bins + bin / n, 1, bin % n);
    }
    ctx.quiet();  // before the barrier after the kernel
  }
};

void run(const gshmem::Runtime& runtime) {
  const int me = runtime.my_pe(), n = runtime.n_pes();
  gshmem::SymmetricArray<std::uint64_t> bins(static_cast<std::size_t>((kBins + n - 1) / n));

  const bool gpu = runtime.on_gpu();
  gshmem::launch({.blocks = gpu ? 32u : 2u, .threads = gpu ? 256u : 2u}, Count{}, bins.data());
  gshmem::synchronize();
  gshmem_barrier_all();

  std::vector<std::uint64_t> want(bins.size());
  for (int pe = 0; pe < n; ++pe) {
    for (int i = 0; i < kSamples; ++i) {
      const int bin = bin_of(pe, i);
      if (bin % n == me) ++want[static_cast<std::size_t>(bin / n)];
    }
  }
  if (bins.to_vector(me) != want)
    throw std::runtime_error("bins of PE " + std::to_string(me) + " are wrong");
  if (me == 0)
    std::printf("histogram: %d samples of %d PEs in %d bins, counts correct\n", kSamples, n, kBins);
}

int main(int argc, char** argv) {
  try {
    argc > 1 ? gshmem::run_threads(std::atoi(argv[1]), run) : run(gshmem::Runtime());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "histogram: %s\n", error.what());
    return 1;
  }
  return 0;
}

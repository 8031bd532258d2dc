// A reduction pipelined round the ring: PE 0 sends its vector chunk by chunk, every PE adds its own
// and forwards, PE 0 gets the sums. While chunk c is at PE p, chunk c + 1 is on its way to it:
// blocks work on chunks independently, each led by its own signal.
//   mpirun -np 4 bin/put_signal_pipeline     or as threads: bin/put_signal_pipeline 4
#include <gshmem/gshmem.hpp>

#include <cstdio>
#include <cstdlib>

constexpr std::size_t kChunks = 64, kChunk = 1024;

// One slot of `partial` and one signal per chunk, so that no slot is written twice and no credits
// have to flow back.
struct Pipeline {
  GSHMEM_FN void operator()(gshmem::LaunchContext ctx, const double* own, double* partial,
                            std::uint64_t* arrived) const {
    const gshmem::Block block = ctx.block();
    const int me = ctx.my_pe(), next = (me + 1) % ctx.n_pes();
    const std::size_t step = static_cast<std::size_t>(ctx.grid_size());
    for (std::size_t c = static_cast<std::size_t>(ctx.block_rank()); c < kChunks; c += step) {
      double* sum = partial + c * kChunk;
      const double* mine = own + c * kChunk;
      if (me == 0) {
        ctx.put_signal_nbi(block, sum, mine, kChunk, {arrived + c, 1}, next);
        continue;
      }
      if (block.thread_rank() == 0) ctx.signal_wait_until(arrived + c, gshmem::Cmp::kEq, 1);
      block.sync();
      for (std::size_t i = static_cast<std::size_t>(block.thread_rank()); i < kChunk;
           i += static_cast<std::size_t>(block.size())) {
        sum[i] += mine[i];
      }
      block.sync();
      ctx.put_signal_nbi(block, sum, sum, kChunk, {arrived + c, 1}, next);
    }
    if (me == 0 && ctx.block_rank() == 0 && block.thread_rank() == 0) {
      for (std::size_t c = 0; c < kChunks; ++c) {
        ctx.signal_wait_until(arrived + c, gshmem::Cmp::kEq, 1);
      }
    }
    ctx.quiet();  // nbi: the sources, and this PE's heap, are in use until here
  }
};

// Integers in doubles: every order of additions gives the same sum.
double value(int pe, std::size_t i) { return static_cast<double>(i % 1000) * (pe + 1); }

void run(const gshmem::Runtime& runtime) {
  const int me = runtime.my_pe(), n = runtime.n_pes();
  gshmem::SymmetricArray<double> own(kChunks * kChunk), partial(kChunks * kChunk);
  gshmem::SymmetricArray<std::uint64_t> arrived(kChunks);
  std::vector<double> mine(own.size());
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = value(me, i);
  own.write(mine, me);

  const bool gpu = runtime.on_gpu();
  gshmem::launch({.blocks = gpu ? 16u : 2u, .threads = gpu ? 256u : 2u}, Pipeline{}, own.data(),
                 partial.data(), arrived.data());
  gshmem::synchronize();

  // PE p has summed the vectors of PEs 0 to p, PE 0 has what came round.
  const std::vector<double> got = partial.to_vector(me);
  for (std::size_t i = 0; i < got.size(); ++i) {
    double want = 0;
    for (int pe = 0; pe <= (me == 0 ? n - 1 : me); ++pe) want += value(pe, i);
    if (got[i] != want) throw std::runtime_error("element " + std::to_string(i) + " is wrong");
  }
  if (me == 0)
    std::printf("put_signal_pipeline: %zu chunks through %d PEs, sums correct\n", kChunks, n);
}

int main(int argc, char** argv) {
  try {
    argc > 1 ? gshmem::run_threads(std::atoi(argv[1]), run) : run(gshmem::Runtime());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "put_signal_pipeline: %s\n", error.what());
    return 1;
  }
  return 0;
}

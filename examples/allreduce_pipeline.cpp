// An allreduce of a long vector round the ring. The vector has a segment for every PE, and a
// segment has chunks. In n - 1 steps each PE adds its part of a segment to the one it has received
// and sends the sum on; in n - 1 more steps the sums go round. Each chunk has its own signal: while
// one chunk is added, the next one is in flight.
//   mpirun -np 4 bin/allreduce_pipeline     or as threads: bin/allreduce_pipeline 4
#include <gshmem/gshmem.hpp>

#include <cstdio>
#include <cstdlib>

constexpr int kChunks = 32;           // chunks of a segment
constexpr std::size_t kChunk = 1024;  // elements of a chunk
constexpr std::size_t kSegment = kChunks * kChunk;

// After step t a PE has segment me - t. Steps 1 to n - 1 arrive in `incoming`, which has a slot for
// each, so no credits flow back. Later steps write to `sum`, whose old contents have arrived and
// been added by then.
struct Allreduce {
  GSHMEM_FN void operator()(gshmem::LaunchContext ctx, const double* own, double* sum,
                            double* incoming, std::uint64_t* arrived) const {
    const gshmem::Block block = ctx.block();
    const int me = ctx.my_pe(), n = ctx.n_pes(), next = (me + 1) % n, last = 2 * (n - 1);
    for (int step = 0; step <= last; ++step) {
      const auto segment = static_cast<std::size_t>((me - step + 2 * n) % n);
      for (int c = ctx.block_rank(); c < kChunks; c += ctx.grid_size()) {
        const std::size_t at = segment * kSegment + static_cast<std::size_t>(c) * kChunk;
        if (step > 0) {
          if (block.thread_rank() == 0)
            ctx.signal_wait_until(arrived + step * kChunks + c, gshmem::Cmp::kEq, 1);
          block.sync();
        }
        if (step < n) {
          const double* const came = incoming + slot(step) + static_cast<std::size_t>(c) * kChunk;
          for (auto i = static_cast<std::size_t>(block.thread_rank()); i < kChunk;
               i += static_cast<std::size_t>(block.size())) {
            sum[at + i] = own[at + i] + (step > 0 ? came[i] : 0);
          }
          block.sync();
        }
        if (step == last) continue;
        double* const there = step + 1 < n
                                  ? incoming + slot(step + 1) + static_cast<std::size_t>(c) * kChunk
                                  : sum + at;
        ctx.put_signal_nbi(block, there, sum + at, kChunk, {arrived + (step + 1) * kChunks + c, 1},
                           next);
      }
    }
    ctx.quiet();
  }
  GSHMEM_FN static std::size_t slot(int step) {
    return step > 0 ? static_cast<std::size_t>(step - 1) * kSegment : 0;
  }
};

// Integers in doubles: every order of additions gives the same sum.
double value(int pe, std::size_t i) { return static_cast<double>(i % 1000) * (pe + 1); }

void run(const gshmem::Runtime& runtime) {
  const int me = runtime.my_pe(), n = runtime.n_pes();
  const auto segments = static_cast<std::size_t>(n);
  gshmem::SymmetricArray<double> own(segments * kSegment), sum(segments * kSegment),
      incoming(segments * kSegment);
  gshmem::SymmetricArray<std::uint64_t> arrived(segments * 2 * kChunks);
  std::vector<double> mine(own.size());
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = value(me, i);
  own.write(mine, me);

  const bool gpu = runtime.on_gpu();
  gshmem::launch({.blocks = gpu ? 16u : 2u, .threads = gpu ? 256u : 2u}, Allreduce{}, own.data(),
                 sum.data(), incoming.data(), arrived.data());
  gshmem::synchronize();

  const std::vector<double> got = sum.to_vector(me);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double want = value(0, i) * n * (n + 1) / 2;
    if (got[i] != want) throw std::runtime_error("element " + std::to_string(i) + " is wrong");
  }
  if (me == 0)
    std::printf("allreduce_pipeline: %zu elements over %d PEs, sums correct\n", got.size(), n);
}

int main(int argc, char** argv) {
  try {
    argc > 1 ? gshmem::run_threads(std::atoi(argv[1]), run) : run(gshmem::Runtime());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "allreduce_pipeline: %s\n", error.what());
    return 1;
  }
  return 0;
}

// A token goes round the ring of PEs: each waits for it, adds 1 to every element, and passes it on.
// gshmem::launch runs one functor as a kernel if PEs are on GPUs, and on host threads in CPU mode.
//   mpirun -np 4 bin/ring     one process per PE
//   bin/ring 4                four PEs as threads of this process
#include <gshmem/gshmem.hpp>

#include <cstdio>
#include <cstdlib>
#include <numeric>

constexpr int kLaps = 100;
constexpr std::size_t kCount = 4096;

struct Ring {
  GSHMEM_FN void operator()(gshmem::LaunchContext ctx, int* token, std::uint64_t* arrived) const {
    const gshmem::Block block = ctx.block();
    const std::uint64_t me = static_cast<std::uint64_t>(ctx.my_pe());
    const std::uint64_t n = static_cast<std::uint64_t>(ctx.n_pes());
    const int next = static_cast<int>((me + 1) % n);

    // Hop h leaves PE h % n; after its payload the signal of the next PE becomes h + 1.
    for (std::uint64_t hop = me; hop < kLaps * n; hop += n) {
      if (block.thread_rank() == 0) ctx.signal_wait_until(arrived, gshmem::Cmp::kGe, hop);
      block.sync();  // the token is visible to the whole block
      for (std::size_t i = static_cast<std::size_t>(block.thread_rank()); i < kCount;
           i += static_cast<std::size_t>(block.size())) {
        token[i] += 1;
      }
      block.sync();  // the put reads what other threads wrote
      ctx.put_signal(block, token, token, kCount, {arrived, hop + 1}, next);
    }
    if (me == 0 && block.thread_rank() == 0) {
      ctx.signal_wait_until(arrived, gshmem::Cmp::kGe, kLaps * n);
    }
  }
};

void run(const gshmem::Runtime& runtime) {
  const int me = runtime.my_pe(), n = runtime.n_pes();
  gshmem::SymmetricArray<int> token(kCount);
  gshmem::SymmetricArray<std::uint64_t> arrived(1);
  std::vector<int> want(kCount);
  // Element i starts as i, so that misplaced elements are detected.
  std::iota(want.begin(), want.end(), 0);
  if (me == 0) token.write(want, me);

  gshmem::launch({.blocks = 1, .threads = runtime.on_gpu() ? 256u : 4u}, Ring{}, token.data(),
                 arrived.data());
  gshmem::synchronize();

  // PE 0 saw the token last after kLaps * n hops, PE p when it passed it on in the last lap.
  const int hops = me == 0 ? kLaps * n : (kLaps - 1) * n + me + 1;
  for (int& value : want) value += hops;
  if (token.to_vector(me) != want) throw std::runtime_error("the token is wrong");
  std::printf("ring: PE %d of %d %s: %d laps of %zu bytes, token correct\n", me, n,
              runtime.on_gpu() ? "on a GPU" : "in CPU mode", kLaps, kCount * sizeof(int));
}

int main(int argc, char** argv) {
  try {
    if (argc > 1) {
      gshmem::run_threads(std::atoi(argv[1]), run);
    } else {
      run(gshmem::Runtime());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ring: %s\n", error.what());
    return 1;
  }
  return 0;
}

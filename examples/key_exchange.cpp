// The exchange of a distributed sort: every PE has keys for all PEs in random order, and sends each
// to the PE that owns its range. A warp sends the keys for one PE as a burst: every thread sends
// the keys that it has, and one signal follows them all. On the network that takes one doorbell for
// many keys.
//   GSHMEM_CONTEXTS=4 mpirun -np 4 bin/key_exchange     or as threads: bin/key_exchange 4
#include <gshmem/gshmem.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using Key = std::uint64_t;
constexpr std::size_t kKeys = 4096;  // keys of a PE
constexpr std::size_t kContexts =
    4;  // without GSHMEM_CONTEXTS they share queues, which is correct but slower

struct Contexts {
  gshmem_ctx_t of[kContexts];
};

struct Exchange {
  // Key i goes to place[i] in the bucket of PE owner[i].
  const Key* keys;
  const int* owner;
  const std::uint64_t* place;
  Key* bucket;
  std::uint64_t* arrived;

  GSHMEM_FN void operator()(gshmem::LaunchContext ctx, Contexts contexts) const {
    const gshmem::Warp warp = ctx.warp();
    const std::size_t lane = static_cast<std::size_t>(warp.thread_rank());
    const std::size_t width = static_cast<std::size_t>(warp.size());
    const gshmem::Context own = ctx.on(contexts.of[ctx.block_rank()]);
    for (int pe = ctx.block_rank(); pe < ctx.n_pes(); pe += ctx.grid_size()) {
      gshmem::Burst burst(own, warp, pe);
      for (std::size_t i = 0; i < kKeys; i += width) {
        const std::size_t mine = std::size_t{owner[i + lane] == pe};
        burst.put_nbi(bucket + (mine ? place[i + lane] : 0), keys + i + lane, mine);
      }
      burst.signal({arrived, 1, gshmem::Signal::kAdd});
    }
    if (lane == 0) own.quiet();  // the keys are in use until then
    if (ctx.block_rank() == 0 && lane == 0) {
      const std::uint64_t senders = static_cast<std::uint64_t>(ctx.n_pes());
      ctx.signal_wait_until(arrived, gshmem::Cmp::kGe, senders);
    }
  }
};

Key key(int pe, std::size_t i) {
  return (static_cast<Key>(pe) * kKeys + i + 1) * 0x9e3779b97f4a7c15u;  // any distribution works
}
int owner_of(Key key, int n) { return static_cast<int>((key >> 32) * static_cast<Key>(n) >> 32); }

void run(const gshmem::Runtime& runtime) {
  const int me = runtime.my_pe(), n = runtime.n_pes();
  // The start of each PE's keys in a bucket, and the keys that must be there at the end.
  std::vector<std::uint64_t> next(static_cast<std::size_t>(n));
  std::vector<Key> expected, mine(kKeys);
  for (int pe = 0; pe < n; ++pe) {
    for (std::size_t i = 0; i < kKeys; ++i) {
      const int owner = owner_of(key(pe, i), n);
      if (owner == me) expected.push_back(key(pe, i));
      if (pe < me) ++next[static_cast<std::size_t>(owner)];
    }
  }
  std::vector<int> owners(kKeys);
  std::vector<std::uint64_t> places(kKeys);
  for (std::size_t i = 0; i < kKeys; ++i) {
    mine[i] = key(me, i);
    owners[i] = owner_of(mine[i], n);
    places[i] = next[static_cast<std::size_t>(owners[i])]++;
  }
  gshmem::SymmetricArray<Key> keys(kKeys), bucket(kKeys * static_cast<std::size_t>(n));
  gshmem::SymmetricArray<int> owner(kKeys);
  gshmem::SymmetricArray<std::uint64_t> place(kKeys), arrived(1);
  keys.write(mine, me);
  owner.write(owners, me);
  place.write(places, me);

  Contexts contexts;
  for (gshmem_ctx_t& ctx : contexts.of) {
    if (gshmem_ctx_create(GSHMEM_CTX_PRIVATE, &ctx) != 0) throw std::runtime_error("no context");
  }
  gshmem_barrier_all();
  gshmem::launch<32>(
      {.blocks = kContexts, .threads = runtime.on_gpu() ? 32u : 2u},
      Exchange{keys.data(), owner.data(), place.data(), bucket.data(), arrived.data()}, contexts);
  gshmem::synchronize();

  std::vector<Key> got = bucket.to_vector(me);
  got.resize(expected.size());
  std::sort(got.begin(), got.end());
  std::sort(expected.begin(), expected.end());
  if (got != expected)
    throw std::runtime_error("the bucket of PE " + std::to_string(me) + " is wrong");
  std::printf("key_exchange: PE %d of %d has its %zu keys\n", me, n, got.size());
  for (const gshmem_ctx_t ctx : contexts.of) gshmem_ctx_destroy(ctx);
}

int main(int argc, char** argv) {
  try {
    argc > 1 ? gshmem::run_threads(std::atoi(argv[1]), run) : run(gshmem::Runtime());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "key_exchange: %s\n", error.what());
    return 1;
  }
  return 0;
}

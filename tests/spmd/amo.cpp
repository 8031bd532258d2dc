// Atomics: results of each operation for each type, and atomicity when all threads of all PEs use
// one word.
#include "tests/spmd/spmd.h"

#include <algorithm>
#include <type_traits>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

template <class T>
GSHMEM_FN T random_of(std::uint64_t seed, std::uint64_t i) {
  return device::bits<T>(static_cast<device::Word<T>>(mix(seed, i)));
}
/// a + b modulo 2^width, as atomics add.
template <class T>
GSHMEM_FN T sum(T a, T b) {
  using W = device::Word<T>;
  return device::bits<T>(static_cast<W>(device::bits<W>(a) + device::bits<W>(b)));
}
template <class T>
GSHMEM_FN T largest() {
  using W = device::Word<T>;
  const W ones = static_cast<W>(~W{0});
  return device::bits<T>(T(-1) < T(0) ? static_cast<W>(ones >> 1) : ones);
}
// The C API has no atomics on small types of the table; their words still exist.
#include "tests/spmd/amo.def"

constexpr std::size_t kCells = 25 * 3;
constexpr std::uint64_t kGuard = 0x5a5a5a5a5a5a5a5a;

struct AmoValuesInKernel {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* cells,
                            std::uint64_t seed) const {
    const int pe = (ctx.my_pe() + 1) % ctx.n_pes();
    AmoValues{}(log, cells, mix(seed, static_cast<std::uint64_t>(pe)), pe);
  }
};

/// Resets the cells to their values before the first atomic: zero in the middle, guards on both
/// sides.
void reset(Pe& pe, const SymmetricArray<std::uint64_t>& cells) {
  std::vector<std::uint64_t> values(kCells, kGuard);
  for (std::size_t i = 1; i < kCells; i += 3) values[i] = 0;
  gshmem_putmem(cells.data(), values.data(), kCells * 8, pe.me());
  pe.barrier();
}

void check_guards(Pe& pe, const SymmetricArray<std::uint64_t>& cells) {
  pe.barrier();
  std::vector<std::uint64_t> values(kCells);
  gshmem_getmem(values.data(), cells.data(), kCells * 8, pe.me());
  std::size_t row = 0;
#define GSHMEM_TYPE(NAME, T, AMO, WAIT, REDUCE)                                                    \
  SPMD_EQ(pe, values[3 * row], kGuard, row);                                                       \
  SPMD_EQ(pe, values[3 * row + 2], kGuard, row);                                                   \
  if (sizeof(T) < 8) SPMD_EQ(pe, values[3 * row + 1] >> sizeof(T) % 8 * 8, std::uint64_t{0}, row); \
  ++row;
#include <gshmem/types.def>
  pe.barrier();
}

}  // namespace

SPMD_TEST(amo_of_every_type_returns_and_leaves_the_right_value) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  SymmetricArray<std::uint64_t> cells(kCells);
  reset(pe, cells);
  pe.run({}, AmoValuesInKernel{}, cells.data(), pe.seed());
  check_guards(pe, cells);
}

SPMD_TEST(amo_of_every_type_by_host_thread_returns_and_leaves_the_right_value) {
  SymmetricArray<std::uint64_t> cells(kCells);
  reset(pe, cells);
  AmoValues{}(pe.host_log(), cells.data(), mix(pe.seed(), 1), pe.next());
  check_guards(pe, cells);
}

namespace {

/// Every thread adds `each` times one to `counter` on `target` and keeps the old values.
template <class T>
struct CountUp {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, T* counter, T* got, int each,
                            int target) const {
    const int thread = ctx.block_rank() * ctx.block_size() + ctx.thread_rank();
    for (int i = 0; i < each; ++i) {
      got[thread * each + i] = ctx.atomic_fetch_add(counter, static_cast<T>(1), target);
    }
  }
};

template <class T>
void test_count_up(Pe& pe, int target) {
  // A floating-point sum on the network is repeated until the word did not change in between: of
  // all callers one succeeds per round trip.
  constexpr bool kIsTried = std::is_floating_point_v<T>;
  const LaunchShape shape{.blocks = 3, .threads = pe.on_gpu() && !kIsTried ? 64u : 2u};
  const int each = pe.rounds(kIsTried ? 20 : 1000);
  const std::size_t mine = shape.blocks * shape.threads * static_cast<std::size_t>(each);
  SymmetricArray<T> counter(1), got(mine);
  pe.run(shape, CountUp<T>{}, counter.data(), got.data(), each, target);
  pe.barrier();
  std::vector<T> all;
  for (int from = 0; from < pe.n(); ++from) {
    const std::vector<T> values = got.to_vector(from);
    all.insert(all.end(), values.begin(), values.end());
  }
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != static_cast<T>(i)) return SPMD_EQ(pe, all[i], static_cast<T>(i));
  }
  pe.barrier();
}

/// All threads update one word per type and operation, with operations that commute.
struct Commute {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, std::uint64_t* words, int rounds,
                            int pe) const {
    const int thread = ctx.block_rank() * ctx.block_size() + ctx.thread_rank();
    const std::uint64_t id = static_cast<std::uint64_t>(ctx.my_pe() * 1000 + thread);
    for (int round = 0; round < rounds; ++round) {
      int row = 0;
#define COMMUTE_NONE(T)
// One thread of each block makes the calls (test_count_up says why).
#define COMMUTE_EXT(T)        \
  if (ctx.thread_rank() == 0) \
    ctx.atomic_add(at, numeric<T>(round == 0 ? 1.f : round % 2 == 0 ? -2.f : 2.f), pe);
#define COMMUTE_STD(T) ctx.atomic_add(at, random_of<T>(id, static_cast<std::uint64_t>(round)), pe);
#define COMMUTE_BIT(T) \
  COMMUTE_STD(T)       \
  ctx.atomic_xor(bits, random_of<T>(id, static_cast<std::uint64_t>(round)), pe);
#define GSHMEM_TYPE(N, T, AMO, WAIT, REDUCE)                              \
  {                                                                       \
    [[maybe_unused]] T* at = reinterpret_cast<T*>(words + 2 * row);       \
    [[maybe_unused]] T* bits = reinterpret_cast<T*>(words + 2 * row + 1); \
    COMMUTE_##AMO(T)++ row;                                               \
  }
#include <gshmem/types.def>
    }
  }
};

}  // namespace

SPMD_TEST(fetch_add_gives_every_value_once) {
  test_count_up<std::uint64_t>(pe, 0);
  test_count_up<int>(pe, pe.n() - 1);
  test_count_up<double>(pe, 0);
}

SPMD_TEST(updates_of_all_threads_of_all_pes_add_up) {
  const LaunchShape shape{.blocks = 2, .threads = pe.on_gpu() ? 40u : 2u};
  const int rounds = 10, target = pe.n() / 2;
  SymmetricArray<std::uint64_t> words(50);
  pe.run(shape, Commute{}, words.data(), rounds, target);
  pe.barrier();
  std::vector<std::uint64_t> expected(50);
  for (int from = 0; from < pe.n(); ++from) {
    for (unsigned thread = 0; thread < shape.blocks * shape.threads; ++thread) {
      const auto id = static_cast<std::uint64_t>(from * 1000) + thread;
      for (int round = 0; round < rounds; ++round) {
        std::size_t row = 0;
#define GSHMEM_TYPE(N, T, AMO, WAIT, REDUCE)                                                     \
  {                                                                                              \
    const auto value = static_cast<device::Word<T>>(mix(id, static_cast<std::uint64_t>(round))); \
    if (detail::kAmo##AMO >= detail::kAmoSTD) {                                                  \
      expected[2 * row] = static_cast<device::Word<T>>(expected[2 * row] + value);               \
    }                                                                                            \
    if (detail::kAmo##AMO == detail::kAmoEXT) {                                                  \
      constexpr float kOfThread = 1 + 5 * 2 - 4 * 2; /* 10 rounds; exact in every order */       \
      const auto threads = static_cast<float>(shape.blocks) * float(pe.n());                     \
      expected[2 * row] = raw(numeric<T>(kOfThread * threads));                                  \
    }                                                                                            \
    if (detail::kAmo##AMO == detail::kAmoBIT) expected[2 * row + 1] ^= value;                    \
    ++row;                                                                                       \
  }
#include <gshmem/types.def>
      }
    }
  }
  const std::vector<std::uint64_t> actual = words.to_vector(target);
  for (std::size_t i = 0; i < expected.size(); ++i) SPMD_EQ(pe, actual[i], expected[i], i);
}

namespace {

/// A lock on PE 0 guards eight words that are read, checked and written without atomics.
struct Locked {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* lock,
                            std::uint64_t* words, int rounds) const {
    constexpr int kWords = 8;
    std::uint64_t mine[kWords];
    const std::uint64_t id = static_cast<std::uint64_t>(ctx.my_pe() * 100 + ctx.block_rank() + 1);
    for (int round = 0; round < rounds; ++round) {
      unsigned polls = 0;
      while (ctx.atomic_compare_swap(lock, 0, id, 0) != 0) device::pause(++polls);
      ctx.fence();
      ctx.get(ctx.thread(), mine, words, kWords, 0);
      for (int i = 0; i < kWords; ++i) {
        SPMD_EQ(log, mine[i], mine[0], static_cast<std::uint64_t>(i));
      }
      for (int i = 0; i < kWords; ++i) ++mine[i];
      ctx.put(ctx.thread(), words, mine, kWords, 0);
      ctx.quiet();
      SPMD_EQ(log, ctx.atomic_swap(lock, 0, 0), id);
    }
  }
};

/// Every thread owns one bit of a word on `pe`.
struct OwnBit {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint32_t* words,
                            int rounds) const {
    const std::uint32_t bit = 1u << ctx.thread_rank();
    std::uint32_t* word = words + ctx.my_pe();
    for (int round = 0; round < rounds; ++round) {
      const int pe = (ctx.my_pe() + round) % ctx.n_pes();
      SPMD_EQ(log, ctx.atomic_fetch_or(word, bit, pe) & bit, 0u);
      SPMD_EQ(log, ctx.atomic_fetch_xor(word, bit, pe) & bit, bit);
      ctx.atomic_or(word, bit, pe);
      SPMD_EQ(log, ctx.atomic_fetch_and(word, ~bit, pe) & bit, bit);
      SPMD_EQ(log, ctx.atomic_fetch(word, pe) & bit, 0u);
    }
  }
};

}  // namespace

namespace {

/// Fetches whose old values are not awaited before quiet: into local memory, and into the heap.
/// Every thread has a word of its own on `pe`.
struct FetchNbi {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* words, int pe) const {
    std::uint64_t* at = words + 2 * ctx.thread_rank();
    std::uint64_t old[4] = {9, 9, 9, 9}, *in_heap = at + 1;
    gshmem_uint64_atomic_fetch_add_nbi(old, at, 5, pe);
    gshmem_quiet();
    gshmem_uint64_atomic_swap_nbi(old + 1, at, 6, pe);
    gshmem_quiet();
    gshmem_uint64_atomic_compare_swap_nbi(old + 2, at, 6, 8, pe);
    gshmem_quiet();
    gshmem_uint64_atomic_fetch_xor_nbi(old + 3, at, 1, pe);
    gshmem_quiet();
    gshmem_uint64_atomic_fetch_nbi(in_heap, at, pe);
    gshmem_quiet();
    for (std::uint64_t i = 0; i < 4; ++i) SPMD_EQ(log, old[i], i == 0 ? 0 : i == 3 ? 8 : i + 4, i);
    SPMD_EQ(log, gshmem_uint64_g(in_heap, ctx.my_pe()), 9);
  }
};

}  // namespace

SPMD_TEST(fetching_atomics_without_a_wait_leave_the_old_value_by_quiet) {
  const LaunchShape shape{.threads = pe.on_gpu() ? 40u : 3u};
  SymmetricArray<std::uint64_t> words(2 * shape.threads);
  if (pe.c_api_in_kernels()) pe.run(shape, FetchNbi{}, words.data(), pe.next());
  pe.barrier();
  // Calls by a host thread, also on the heap's own copy.
  std::uint64_t old = 0;
  gshmem_uint64_p(words.data(), 40, pe.next());
  gshmem_quiet();
  gshmem_uint64_atomic_fetch_inc_nbi(&old, words.data(), pe.next());
  gshmem_uint64_atomic_fetch_nbi(words.data() + 1, words.data(), pe.next());
  gshmem_quiet();
  SPMD_EQ(pe, old, 40u);
  SPMD_EQ(pe, gshmem_uint64_g(words.data() + 1, pe.me()), 41u);
  pe.barrier();
}

SPMD_TEST(compare_swap_makes_a_lock) {
  const LaunchShape shape{.blocks = 3, .threads = 1};
  const int rounds =
      std::max(1, pe.rounds(4000) / pe.n());  // a thread that gets the lock waits for all others
  SymmetricArray<std::uint64_t> lock(1), words(8);
  pe.run(shape, Locked{}, lock.data(), words.data(), rounds);
  pe.barrier();
  const std::vector<std::uint64_t> values = words.to_vector(0);
  for (const std::uint64_t value : values) {
    SPMD_EQ(pe, value, static_cast<std::uint64_t>(3 * rounds * pe.n()));
  }
}

SPMD_TEST(bit_operations_leave_the_bits_of_others_alone) {
  SymmetricArray<std::uint32_t> words(static_cast<std::size_t>(pe.n()));
  pe.run({.blocks = 1, .threads = pe.on_gpu() ? 32u : 4u}, OwnBit{}, words.data(), pe.rounds(100));
}

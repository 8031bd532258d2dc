// The calls of gshmem::Context that no other body makes: sets of variables, increments, blocks with
// gaps, locks, and the quiet for one PE, in kernels and by host threads.
#include "tests/spmd/spmd.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

constexpr std::size_t kSetOf = 4, kBlocksWithGaps = 3, kBlockOf = 2, kBlockStep = 5;

struct ContextWords {
  std::uint64_t* vars;
  int* counts;
  int* gaps;    ///< kBlocksWithGaps blocks of kBlockOf elements, kBlockStep apart
  int* source;  ///< the same blocks without gaps
  int* back;
  long* lock;
  std::uint64_t* locked;
};

struct ContextCalls {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, ContextWords words,
                            std::uint64_t tag) const {
    run(ctx, log, words, tag);
  }
  /// `tag` is larger in each call. It is for one thread of each PE.
  GSHMEM_FN static void run(const Context& ctx, Log log, const ContextWords& words,
                            std::uint64_t tag) {
    const int next = (ctx.my_pe() + 1) % ctx.n_pes();
    for (std::size_t i = 0; i < kSetOf; ++i) ctx.p(words.vars + i, tag + i, next);
    ctx.atomic_inc(words.counts, next);
    SPMD_EQ(log, ctx.atomic_fetch_inc(words.counts + 1, next), static_cast<int>(tag / 10 - 1));
    ctx.pe_quiet(Thread{}, next);
    wait(ctx, log, words.vars, tag);

    ctx.ibput(words.gaps, words.source, {kBlockStep, kBlockOf, kBlockOf, kBlocksWithGaps}, next);
    ctx.quiet();
    ctx.ibget(words.back, words.gaps, {kBlockOf, kBlockStep, kBlockOf, kBlocksWithGaps}, next);
    for (std::size_t i = 0; i < kBlocksWithGaps * kBlockOf; ++i)
      SPMD_EQ(log, words.back[i], words.source[i], i);

    ctx.set_lock(words.lock);
    SPMD_EQ(log, ctx.test_lock(words.lock), false);
    ctx.p(words.locked, ctx.g(words.locked, 0) + 1, 0);
    ctx.quiet();
    ctx.clear_lock(words.lock);
  }
  GSHMEM_FN static void wait(const Context& ctx, Log log, const std::uint64_t* vars,
                             std::uint64_t tag) {
    const int none[kSetOf] = {1, 1, 1, 1}, last[kSetOf] = {1, 1, 1, 0};
    std::uint64_t values[kSetOf];
    for (std::size_t i = 0; i < kSetOf; ++i) values[i] = tag + i;
    std::size_t indices[kSetOf] = {};
    ctx.wait_until_all(vars, kSetOf, nullptr, Cmp::kGe, tag);
    ctx.wait_until_all_vector(vars, kSetOf, nullptr, Cmp::kEq, values);
    SPMD_EQ(log, ctx.wait_until_any(vars, kSetOf, last, Cmp::kEq, tag + 3), 3u);
    SPMD_EQ(log, ctx.wait_until_any_vector(vars, kSetOf, last, Cmp::kEq, values), 3u);
    SPMD_EQ(log, ctx.wait_until_some(vars, kSetOf, indices, nullptr, Cmp::kLe, tag + 1), 2u);
    SPMD_EQ(log, indices[0] + indices[1], 1u);
    SPMD_EQ(log, ctx.wait_until_some_vector(vars, kSetOf, indices, nullptr, Cmp::kEq, values),
            kSetOf);
    SPMD_EQ(log, ctx.test_all(vars, kSetOf, nullptr, Cmp::kGt, tag), false);
    SPMD_EQ(log, ctx.test_all_vector(vars, kSetOf, nullptr, Cmp::kEq, values), true);
    SPMD_EQ(log, ctx.test_any(vars, kSetOf, none, Cmp::kEq, tag), SIZE_MAX);
    SPMD_EQ(log, ctx.test_any_vector(vars, kSetOf, last, Cmp::kEq, values), 3u);
    SPMD_EQ(log, ctx.test_some(vars, kSetOf, indices, nullptr, Cmp::kEq, tag + 2), 1u);
    SPMD_EQ(log, indices[0], 2u);
    SPMD_EQ(log, ctx.test_some_vector(vars, kSetOf, indices, nullptr, Cmp::kNe, values), 0u);
  }
};

}  // namespace

SPMD_TEST(a_context_waits_for_sets_moves_blocks_and_locks_as_the_c_api_does) {
  SymmetricArray<std::uint64_t> vars(kSetOf), locked(1);
  SymmetricArray<int> counts(2), gaps(kBlocksWithGaps * kBlockStep),
      source(kBlocksWithGaps * kBlockOf), back(kBlocksWithGaps * kBlockOf);
  SymmetricArray<long> lock(1);
  std::vector<int> mine(source.size());
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = 100 * pe.me() + static_cast<int>(i) + 1;
  source.write(mine, pe.me());
  pe.barrier();
  const ContextWords words{vars.data(), counts.data(), gaps.data(),  source.data(),
                           back.data(), lock.data(),   locked.data()};
  pe.run({}, ContextCalls{}, words, std::uint64_t{10});
  pe.barrier();
  int calls = 1;
  if (!pe.on_gpu()) {
    ContextCalls::run(context(), pe.host_log(), words, 20);
    pe.barrier();
    calls = 2;
  }
  const auto got = gaps.to_vector(pe.me());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t block = i / kBlockStep, at = i % kBlockStep;
    const int value = 100 * pe.previous() + static_cast<int>(block * kBlockOf + at) + 1;
    SPMD_EQ(pe, got[i], at < kBlockOf ? value : 0, i);
  }
  for (const int count : counts.to_vector(pe.me())) SPMD_EQ(pe, count, calls);
  SPMD_EQ(pe, locked.to_vector(0)[0], static_cast<std::uint64_t>(calls * pe.n()));
  pe.barrier();
}

// Regions: which are open, of each block and of the host threads; calls in them behave as usual,
// also when they wait.
#include "tests/spmd/spmd.h"

#include <algorithm>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

constexpr std::uint32_t kNone = GSHMEMX_REGION_HINT_NONE, kBatch = GSHMEMX_REGION_HINT_BATCH_RMA;
constexpr std::uint32_t kUnknown = 1u << 31;
constexpr int kInvalid = GSHMEMX_ERROR_INVALID_VALUE;

GSHMEM_FN gshmemx_region_attrs_t attrs_of(std::uint32_t hints) {
  gshmemx_region_attrs_t attrs = GSHMEMX_REGION_ATTRS_INITIALIZER;
  attrs.hints = hints;
  return attrs;
}

/// Checks which regions are open, as the calling thread sees it.
GSHMEM_FN void expect_open(Log log, bool any, bool batch, std::uint64_t tag) {
  int active = -1;
  SPMD_EQ(log, gshmemx_region_is_active(kNone, &active), 0, tag);
  SPMD_EQ(log, active, any ? 1 : 0, tag);
  active = -1;
  SPMD_EQ(log, gshmemx_region_is_active(kBatch, &active), 0, tag);
  SPMD_EQ(log, active, batch ? 1 : 0, tag);
}

/// Every block has a ring of its own in two words of `words`: all threads put by nbi forms, and one
/// waits for the previous PE, inside of the region.
struct RegionsOfBlocks {
  static constexpr int kWords = 32;

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* words,
                            std::uint64_t* flags, int rounds) const {
    const int next = (ctx.my_pe() + 1) % ctx.n_pes();
    std::uint64_t* const mine = words + 2 * kWords * ctx.block_rank();
    std::uint64_t* const flag = flags + 2 * ctx.block_rank();
    std::uint64_t last = 0;
    for (int round = 1; round <= rounds; ++round) {
      const std::uint64_t now = static_cast<std::uint64_t>(round);
      const bool batch = round % 2 == 0;
      const gshmemx_region_attrs_t attrs = attrs_of(batch ? kBatch : kNone);
      std::uint64_t handle = 0, other = 0;
      expect_open(log, false, false, now);
      SPMD_EQ(log, gshmemx_region_start_block(&handle, round == 1 ? nullptr : &attrs), 0, now);
      SPMD_CHECK(log, handle != 0 && handle != last);
      expect_open(log, true, batch, now);
      SPMD_EQ(log, gshmemx_region_start_block(&other, &attrs), kInvalid, now);
      SPMD_EQ(log, other, 0u, now);
      SPMD_EQ(log, gshmemx_region_stop_block(last), kInvalid, now);
      SPMD_EQ(log, gshmemx_region_stop_block(handle + 2), kInvalid, now);
      expect_open(log, true, batch, now);

      for (int i = ctx.thread_rank(); i < kWords; i += ctx.block_size()) {
        mine[i] = now * 100 + static_cast<std::uint64_t>(i);
      }
      gshmemx_uint64_put_nbi_block(mine + kWords, mine, kWords, next);
      if (ctx.thread_rank() == 0) {
        gshmem_fence();
        gshmem_uint64_p(flag, now, next);
        gshmem_uint64_wait_until(flag, GSHMEM_CMP_GE, now);
        for (std::uint64_t i = 0; i < kWords; ++i) {
          SPMD_EQ(log, mine[kWords + i], now * 100 + i, now);
        }
        gshmem_quiet();
      }
      SPMD_EQ(log, gshmemx_region_stop_block(handle), 0, now);
      SPMD_EQ(log, gshmemx_region_stop_block(handle), kInvalid, now);
      last = handle;
      if (ctx.thread_rank() == 0) {  // the next PE overwrites what the one after it has read
        const int previous = (ctx.my_pe() + ctx.n_pes() - 1) % ctx.n_pes();
        gshmem_uint64_p(flag + 1, now, previous);
        gshmem_uint64_wait_until(flag + 1, GSHMEM_CMP_GE, now);
      }
      ctx.block().sync();
    }
  }
};

struct WrongArguments {
  GSHMEM_FN void operator()(const LaunchContext&, Log log) const {
    const gshmemx_region_attrs_t unknown = attrs_of(kUnknown | kBatch);
    std::uint64_t handle = 7;
    int active = 7;
    SPMD_EQ(log, gshmemx_region_start_block(nullptr, nullptr), kInvalid);
    SPMD_EQ(log, gshmemx_region_start_block(&handle, &unknown), kInvalid);
    SPMD_EQ(log, handle, 7u);
    SPMD_EQ(log, gshmemx_region_stop_block(0), kInvalid);
    SPMD_EQ(log, gshmemx_region_is_active(kUnknown, &active), kInvalid);
    SPMD_EQ(log, gshmemx_region_is_active(kNone, nullptr), kInvalid);
    SPMD_EQ(log, active, 7);
  }
};

/// Ends with its regions open.
struct LeftOpen {
  GSHMEM_FN void operator()(const LaunchContext&, Log log) const {
    std::uint64_t handle = 0;
    expect_open(log, false, false, 1);
    SPMD_EQ(log, gshmemx_region_start_block(&handle, nullptr), 0);
    expect_open(log, true, false, 2);
  }
};

}  // namespace

SPMD_TEST(blocks_have_regions_of_their_own_in_which_calls_work_and_wait) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  const LaunchShape shape = shape_of(pe, Scope::kBlock);
  SymmetricArray<std::uint64_t> words(2 * RegionsOfBlocks::kWords * shape.blocks);
  SymmetricArray<std::uint64_t> flags(2 * shape.blocks);
  pe.run(shape, RegionsOfBlocks{}, words.data(), flags.data(), std::max(pe.rounds(20), 4));
  pe.barrier();
}

SPMD_TEST(wrong_arguments_of_regions_are_a_status_and_change_nothing) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  pe.run(shape_of(pe, Scope::kBlock), WrongArguments{});
  SPMD_EQ(pe, gshmemx_last_fault(nullptr), 0);
  pe.barrier();
}

SPMD_TEST(region_that_a_kernel_leaves_open_is_not_that_of_the_next_one) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  for (int i = 0; i < 3; ++i) pe.run(shape_of(pe, Scope::kBlock), LeftOpen{});
  expect_open(pe.host_log(), false, false, 3);
  pe.barrier();
}

SPMD_TEST(region_of_host_threads_is_a_hint) {
  SymmetricArray<int> words(2);
  const gshmemx_region_attrs_t batch = attrs_of(kBatch), unknown = attrs_of(kUnknown);
  std::uint64_t handle = 0, other = 0;
  int active = -1;
  expect_open(pe.host_log(), false, false, 1);
  SPMD_EQ(pe, gshmemx_region_stop(1), kInvalid);
  SPMD_EQ(pe, gshmemx_region_start(nullptr, &batch), kInvalid);
  SPMD_EQ(pe, gshmemx_region_start(&handle, &unknown), kInvalid);
  SPMD_EQ(pe, gshmemx_region_is_active(kUnknown, &active), kInvalid);
  SPMD_EQ(pe, gshmemx_region_is_active(kNone, nullptr), kInvalid);
  SPMD_EQ(pe, handle, 0u);
  for (const gshmemx_region_attrs_t* attrs :
       {static_cast<const gshmemx_region_attrs_t*>(nullptr), &batch}) {
    SPMD_EQ(pe, gshmemx_region_start(&handle, attrs), 0);
    expect_open(pe.host_log(), true, attrs != nullptr, 2);
    SPMD_EQ(pe, gshmemx_region_start(&other, attrs), kInvalid);
    SPMD_EQ(pe, gshmemx_region_stop(handle + 2), kInvalid);
    SPMD_EQ(pe, other, 0u);
    expect_open(pe.host_log(), true, attrs != nullptr, 3);
    const int source[2] = {pe.me() + 1, pe.me() - 1};
    gshmem_int_put_nbi(words.data(), source, 1, pe.next());
    gshmem_int_put_nbi(words.data() + 1, source + 1, 1, pe.next());
    pe.barrier();
    SPMD_EQ(pe, gshmem_int_g(words.data(), pe.me()), pe.previous() + 1);
    SPMD_EQ(pe, gshmem_int_g(words.data() + 1, pe.me()), pe.previous() - 1);
    SPMD_EQ(pe, gshmemx_region_stop(handle), 0);
    expect_open(pe.host_log(), false, false, 4);
    pe.barrier();
  }
}

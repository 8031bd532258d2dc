// Shared memory that the blocks of a test give for their copies. Included by rma_align.cpp and
// smem.cpp. In CPU mode a block uses a part of host memory.
#pragma once

#include "tests/spmd/spmd.h"

namespace gshmem::spmd {

/// The bytes that a block gives, and the guard bytes before and after them.
inline constexpr std::size_t kSmemGuard = 64, kSmemGiven = device::kSmemMinimum;
inline constexpr std::size_t kSmemBytes = kSmemGiven + 2 * kSmemGuard;

/// Returns all kSmemBytes of the calling block. `host` has as many for every block.
GSHMEM_FN std::uint8_t* block_smem([[maybe_unused]] const LaunchContext& ctx,
                                   [[maybe_unused]] std::uint8_t* host) {
#if defined(__CUDA_ARCH__)
  static_assert(kSmemBytes % sizeof(device::Word16) == 0);
  __shared__ device::Word16 words[kSmemBytes / sizeof(device::Word16)];
  return reinterpret_cast<std::uint8_t*>(words);
#else
  return host + kSmemBytes * static_cast<std::size_t>(ctx.block_rank());
#endif
}

/// All threads of the block call it, and then synchronize: sets bytes [begin, end) to `value`;
/// expect_bytes checks that they still have it.
GSHMEM_FN void fill_bytes(const LaunchContext& ctx, std::uint8_t* bytes, std::size_t begin,
                          std::size_t end, std::uint8_t value) {
  const auto first = static_cast<std::size_t>(ctx.thread_rank());
  for (std::size_t i = begin + first; i < end; i += static_cast<std::size_t>(ctx.block_size()))
    bytes[i] = value;
  ctx.block().sync();
}
GSHMEM_FN void expect_bytes(const LaunchContext& ctx, Log log, const std::uint8_t* bytes,
                            std::size_t begin, std::size_t end, std::uint8_t value) {
  const auto first = static_cast<std::size_t>(ctx.thread_rank());
  for (std::size_t i = begin + first; i < end; i += static_cast<std::size_t>(ctx.block_size()))
    SPMD_EQ(log, bytes[i], value, i);
  ctx.block().sync();
}

/// Calls `work()` on all threads of blocks that have given shared memory; only that is accessed,
/// and it belongs to the block again afterwards.
template <class Work>
GSHMEM_FN void with_smem(const LaunchContext& ctx, Log log, std::uint8_t* host, const Work& work) {
  constexpr std::size_t kEnd = kSmemGuard + kSmemGiven;
  std::uint8_t* const smem = block_smem(ctx, host);
  fill_bytes(ctx, smem, 0, kSmemGuard, 0xa7);
  fill_bytes(ctx, smem, kEnd, kSmemBytes, 0xa7);
  // One thread may give and take back, or all.
  const bool mine = ctx.block_rank() % 2 != 0 || ctx.thread_rank() == ctx.block_size() - 1;
  if (mine) ctx.give_smem(smem + kSmemGuard, kSmemGiven);
  ctx.block().sync();
  work();
  ctx.block().sync();
  if (mine) ctx.release_smem();
  ctx.block().sync();
  expect_bytes(ctx, log, smem, 0, kSmemGuard, 0xa7);
  expect_bytes(ctx, log, smem, kEnd, kSmemBytes, 0xa7);
}

}  // namespace gshmem::spmd

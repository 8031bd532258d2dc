// Ordering between one PE's operations: fence, quiet, and plain access through gshmem_ptr.
#include "tests/spmd/spmd.h"

#include <algorithm>
#include <cstdlib>
#include <string>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

enum class Order { kFence, kQuiet };

/// Data, then a fence (or nbi data and quiet), then a flag; the reader checks the data after the
/// flag and replies.
struct FlagAfterData {
  static constexpr int kWords = 40;

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* data,
                            std::uint64_t* flags, int rounds, Order order) const {
    const int me = ctx.my_pe();
    std::uint64_t* source = data + kWords * ctx.n_pes();
    for (int round = 1; round <= rounds; ++round) {
      const std::uint64_t now = static_cast<std::uint64_t>(round);
      const int to = (me + round) % ctx.n_pes();
      const int from = (me + ctx.n_pes() - round % ctx.n_pes()) % ctx.n_pes();
      for (int i = 0; i < kWords; ++i) source[i] = mix(now, static_cast<std::uint64_t>(me + i));
      if (order == Order::kFence) {
        ctx.put(ctx.thread(), data + me * kWords, source, kWords, to);
        ctx.fence();
      } else {
        ctx.put_nbi(ctx.thread(), data + me * kWords, source, kWords, to);
        ctx.quiet();
      }
      ctx.p(flags + me, now, to);
      ctx.wait_until(flags + from, Cmp::kEq, now);
      for (int i = 0; i < kWords; ++i) {
        SPMD_EQ(log, data[from * kWords + i], mix(now, static_cast<std::uint64_t>(from + i)), now);
      }
      ctx.fence();
      ctx.p(flags + ctx.n_pes() + me, now, from);
      ctx.wait_until(flags + ctx.n_pes() + to, Cmp::kEq, now);
    }
  }
};

/// Every block makes a put that is not awaited, a fence, then a flag. If PEs have several rails,
/// the data uses that of the block and the flag the first one, and only the fence orders them.
struct FlagBehindFence {
  static constexpr int kWords = 40, kBlocks = 6;

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* data,
                            std::uint64_t* flags, int rounds) const {
    const int n = ctx.n_pes(), block = ctx.block_rank(), me = ctx.my_pe() * kBlocks + block;
    std::uint64_t* source = data + kWords * (n * kBlocks + block);
    std::uint64_t* acks = flags + n * kBlocks;
    for (int round = 1; round <= rounds; ++round) {
      const std::uint64_t now = static_cast<std::uint64_t>(round);
      const int to = (ctx.my_pe() + round) % n;
      const int from = (ctx.my_pe() + n - round % n) % n;
      const int theirs = from * kBlocks + block;
      for (int i = 0; i < kWords; ++i) source[i] = mix(now, static_cast<std::uint64_t>(me + i));
      ctx.put_nbi(ctx.thread(), data + me * kWords, source, kWords, to);
      ctx.fence();
      ctx.p(flags + me, now, to);
      ctx.wait_until(flags + theirs, Cmp::kEq, now);
      for (int i = 0; i < kWords; ++i) {
        SPMD_EQ(log, data[theirs * kWords + i], mix(now, static_cast<std::uint64_t>(theirs + i)),
                now);
      }
      ctx.quiet();  // the source may be reused, too
      ctx.p(acks + me, now, from);
      ctx.wait_until(acks + to * kBlocks + block, Cmp::kEq, now);
    }
  }
};

void test_order(Pe& pe, Order order) {
  const auto n = static_cast<std::size_t>(pe.n());
  SymmetricArray<std::uint64_t> data((n + 1) * FlagAfterData::kWords), flags(2 * n);
  pe.run({}, FlagAfterData{}, data.data(), flags.data(), pe.rounds(500), order);
}

void test_fence(Pe& pe) {
  constexpr auto kBlocks = static_cast<std::size_t>(FlagBehindFence::kBlocks);
  const auto n = static_cast<std::size_t>(pe.n());
  SymmetricArray<std::uint64_t> data((n + 1) * kBlocks * FlagBehindFence::kWords),
      flags(2 * n * kBlocks);
  pe.run({.blocks = kBlocks}, FlagBehindFence{}, data.data(), flags.data(),
         std::max(pe.rounds(500), 20));
}

/// Plain stores to every PE through ptr, and plain loads from every PE after a barrier.
struct ThroughPtr {
  GSHMEM_FN static std::uint32_t value(int from, int to) {
    return static_cast<std::uint32_t>(from * 1000 + to + 7);
  }
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint32_t* words,
                            const std::uint8_t* mapped) const {
    const int me = ctx.my_pe(), n = ctx.n_pes(), width = ctx.block_size();
    for (int pe = ctx.thread_rank(); pe < n; pe += width) {
      std::uint32_t* theirs = ctx.ptr(words, pe);
      SPMD_CHECK(log, (theirs != nullptr) == (mapped[pe] != 0));
      if (theirs) theirs[me] = value(me, pe);
    }
    ctx.barrier_all(ctx.block());
    for (int pe = ctx.thread_rank(); pe < n; pe += width) {
      const std::uint32_t* theirs = ctx.ptr(words, pe);
      if (!theirs) continue;
      for (int from = 0; from < n; ++from) {
        if (mapped[from] != 0) SPMD_EQ(log, theirs[from], value(from, pe));
      }
    }
    int local = 0;
    SPMD_CHECK(log, ctx.ptr(words, me) == words);
    SPMD_CHECK(log, ctx.ptr(&local, 0) == nullptr);
    SPMD_CHECK(log, ctx.ptr(words, -1) == nullptr);
    SPMD_CHECK(log, ctx.ptr(words, n) == nullptr);
  }
};

/// The operation between the store and the load of StoreBuffering.
enum class Between { kQuiet, kFence, kNothing };

/// Store buffering: each of two PEs stores a word, completes it and loads the other's word. At
/// least one of them sees the other's store. Every thread does this with the thread of the same
/// number on the other PE. The words are at the reader and at the writer alternately.
struct StoreBuffering {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* words,
                            std::uint64_t rounds, Between between) const {
    const int me = ctx.my_pe(), other = me ^ 1;
    if (other >= ctx.n_pes()) return;
    const std::size_t threads = static_cast<std::size_t>(ctx.grid_size() * ctx.block_size());
    const std::size_t thread =
        static_cast<std::size_t>(ctx.block_rank() * ctx.block_size() + ctx.thread_rank());
    std::uint64_t* mine = words + static_cast<std::size_t>(me & 1) * threads + thread;
    std::uint64_t* theirs = words + static_cast<std::size_t>(other & 1) * threads + thread;
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      const bool at_reader = round % 2 != 0;
      // gshmem-check: ignore, since the other PE may read it at the same moment
      ctx.p(mine, round, at_reader ? other : me);
      if (between == Between::kQuiet) ctx.quiet();
      if (between == Between::kFence) ctx.fence();
      const std::uint64_t seen = ctx.g(theirs, at_reader ? me : other) >= round ? 1 : 0;
      // Sends the result, and announces that the next round may begin. The words alternate, since
      // the other PE may be a round ahead when this one reads.
      std::uint64_t* told = words + (2 + round % 2) * threads + thread;
      ctx.p(told, 2 * round + seen, other);
      const std::uint64_t answer = ctx.signal_wait_until(told, Cmp::kGe, 2 * round);
      if (seen == 0 && answer % 2 == 0) SPMD_EQ(log, seen, 1u, round);
    }
  }
};

/// A block makes puts that are not awaited, flushes as a block, by warps or by threads, and
/// overwrites the source.
struct SpoilAfterFlush {
  static constexpr int kWords = 2000, kPieces = 3;

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, std::uint64_t* data,
                            std::uint64_t round) const {
    const Block block = ctx.block();
    const int me = ctx.my_pe(), to = (me + 1) % ctx.n_pes();
    for (int piece = 0; piece < kPieces; ++piece) {
      std::uint64_t* const dest = data + piece * kWords;
      std::uint64_t* const source = dest + kPieces * kWords;
      for (int i = block.thread_rank(); i < kWords; i += block.size()) {
        source[i] = mix(round, static_cast<std::uint64_t>(me * kWords + i));
      }
      ctx.put_nbi(block, dest, source, kWords, to);
      if (piece == 0) gshmemx_flush_block();
      if (piece == 1) gshmemx_flush_warp();
      if (piece == 2) gshmemx_flush();
      for (int i = block.thread_rank(); i < kWords; i += block.size()) source[i] = 0;
      block.sync();
    }
    ctx.quiet();
  }
};

void test_flush(Pe& pe) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  constexpr int kWords = SpoilAfterFlush::kWords;
  SymmetricArray<std::uint64_t> data(2 * SpoilAfterFlush::kPieces * kWords);
  const int from = pe.previous();
  for (int round = 1; round <= pe.rounds(20); ++round) {
    pe.run({.blocks = 1, .threads = pe.on_gpu() ? 64u : 4u}, SpoilAfterFlush{}, data.data(),
           static_cast<std::uint64_t>(round));
    pe.barrier();
    const std::vector<std::uint64_t> got = data.to_vector(pe.me());
    for (int i = 0; i < SpoilAfterFlush::kPieces * kWords; ++i) {
      const std::uint64_t want = mix(static_cast<std::uint64_t>(round),
                                     static_cast<std::uint64_t>(from * kWords + i % kWords));
      SPMD_EQ(pe, got[static_cast<std::size_t>(i)], want, static_cast<std::uint64_t>(i / kWords));
    }
    pe.barrier();
  }
}

/// SPMD_LITMUS_ROUNDS: rounds of all threads together. SPMD_LITMUS=fence or nothing: shows the
/// behaviour of GPUs with less than quiet, with which the body may fail.
void test_store_buffering(Pe& pe) {
  if (pe.n() == 1) return pe.skip("needs two PEs");
  LaunchShape shape;
  if (pe.on_gpu() && !pe.on_network()) shape = {.blocks = 16, .threads = 64};
  const std::size_t threads = shape.blocks * shape.threads;
  std::uint64_t rounds = static_cast<std::uint64_t>(pe.rounds(pe.on_network() ? 5000
                                                              : pe.on_gpu()   ? 100000
                                                                              : 20000));
  if (const char* all = std::getenv("SPMD_LITMUS_ROUNDS")) {
    rounds = std::strtoull(all, nullptr, 0) / threads;
  }
  const char* less = std::getenv("SPMD_LITMUS");
  const std::string name = less ? less : "quiet";
  const Between between = name == "nothing" ? Between::kNothing
                          : name == "fence" ? Between::kFence
                                            : Between::kQuiet;
  SymmetricArray<std::uint64_t> words(4 * threads);
  pe.run(shape, StoreBuffering{}, words.data(), rounds, between);
}

}  // namespace

SPMD_TEST(fence_orders_a_flag_after_the_data) { test_order(pe, Order::kFence); }
SPMD_TEST(fence_orders_a_flag_after_data_on_another_queue) { test_fence(pe); }
SPMD_TEST(quiet_completes_nbi_puts_before_a_flag) { test_order(pe, Order::kQuiet); }
SPMD_TEST(quiet_completes_a_store_before_a_later_load) { test_store_buffering(pe); }

SPMD_TEST(sources_may_change_after_flush) { test_flush(pe); }
SPMD_TEST(a_team_has_no_multicast_address) {
  SymmetricArray<std::uint32_t> words(1);
  SPMD_CHECK(pe, gshmemx_mc_ptr(GSHMEM_TEAM_WORLD, words.data()) == nullptr);
}

SPMD_TEST(ptr_gives_plain_access_to_every_pe) {
  SymmetricArray<std::uint32_t> words(static_cast<std::size_t>(pe.n()));
  SymmetricArray<std::uint8_t> mapped(static_cast<std::size_t>(pe.n()));
  std::vector<std::uint8_t> expected;
  for (int target = 0; target < pe.n(); ++target) expected.push_back(pe.maps(target));
  pe.write(mapped.data(), expected);
  pe.run({.blocks = 1, .threads = 3}, ThroughPtr{}, words.data(), mapped.data());
}

SPMD_TEST(ptr_by_host_thread_is_null_for_memory_that_is_not_symmetric) {
  SymmetricArray<std::uint32_t> words(4);
  int local = 0;
  const auto heap = std::vector<int>(10);
  SPMD_CHECK(pe, gshmem_ptr(words.data(), pe.me()) == words.data());
  SPMD_CHECK(pe, (gshmem_ptr(words.data() + 1, pe.next()) != nullptr) == pe.maps(pe.next()));
  SPMD_CHECK(pe, gshmem_ptr(words.data(), pe.n()) == nullptr);
  SPMD_CHECK(pe, gshmem_ptr(words.data(), -1) == nullptr);
  SPMD_CHECK(pe, gshmem_ptr(&local, 0) == nullptr);
  SPMD_CHECK(pe, gshmem_ptr(heap.data(), 0) == nullptr);
  SPMD_CHECK(pe, gshmem_ptr(nullptr, 0) == nullptr);
  // Another PE's copy is not a symmetric address on this one.
  if (pe.n() > 1) {
    const void* theirs = gshmem_ptr(words.data(), pe.next());
    if (theirs) SPMD_CHECK(pe, gshmem_ptr(theirs, pe.me()) == nullptr);
  }
}

SPMD_TEST(pes_and_symmetric_addresses_are_accessible) {
  SymmetricArray<std::uint32_t> words(4);
  int local = 0;
  for (int target = 0; target < pe.n(); ++target) {
    SPMD_EQ(pe, gshmem_pe_accessible(target), 1);
    SPMD_EQ(pe, gshmem_addr_accessible(words.data() + 3, target), 1);
    SPMD_EQ(pe, gshmem_addr_accessible(&local, target), 0);
  }
  for (const int none : {-1, pe.n()}) {
    SPMD_EQ(pe, gshmem_pe_accessible(none), 0);
    SPMD_EQ(pe, gshmem_addr_accessible(words.data(), none), 0);
  }
}

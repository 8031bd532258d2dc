// The functions of DeepEP's kernels (include/gshmem/deepep.h): a word follows the data that was put
// before it on its queue, whichever threads put; quiet of a queue; addresses of mapped PEs.
#include "tests/spmd/spmd.h"

#include <gshmem/deepep.h>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

GSHMEM_FN std::uint64_t number(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

/// Every group puts messages to the next PE on a queue, then adds to a word there on that queue.
/// The next PE checks the data when the word has its value, and replies by an addition.
struct WordAfterData {
  static constexpr int kMessages = 6, kWords = 520, kWarps = 2;
  /// The threads of which one adds for all: each warp with a queue and words of its own, or the
  /// block, whose warps put on the same queue.
  enum class Adds { kWarp, kBlock };

  /// Words of destinations, sources, and flags.
  static constexpr std::size_t kAll = 2 * kWarps * kMessages * kWords + kWarps;
  GSHMEM_FN static int length(int message) {
    const int lengths[kMessages] = {40, 1, kWords, 3, 17, 130};
    return lengths[message];
  }
  GSHMEM_FN static std::uint64_t value(int from, int at, std::uint64_t round) {
    return mix(round, static_cast<std::uint64_t>(from * 65536 + at));
  }
  /// Returns word `i` of memory outside of the heap.
  GSHMEM_FN static std::uint64_t outside(int i) { return mix(7, static_cast<std::uint64_t>(i)); }

  template <class Group>
  GSHMEM_FN void send(const LaunchContext& ctx, Log log, Group group, int k, std::uint64_t* data,
                      const std::uint64_t* local, int* words, int rounds) const {
    const Warp warp;
    const int lane = warp.thread_rank(), mine = ctx.thread_rank() / static_cast<int>(warp.size());
    const int me = ctx.my_pe(), n = ctx.n_pes(), to = (me + 1) % n, from = (me + n - 1) % n;
    std::uint64_t *dest = data + mine * kMessages * kWords,
                  *source = dest + kWarps * kMessages * kWords;
    int *flag = words + 2 * k, *reply = flag + 1;
    for (int turn = 1; turn <= rounds; ++turn) {
      const std::uint64_t round = static_cast<std::uint64_t>(turn);
      const int queue = turn % 3 * kWarps + k;
      for (int m = 0; m < kMessages; ++m) {
        const int at = m * kWords;
        const std::size_t bytes = static_cast<std::size_t>(length(m)) * sizeof(*dest);
        for (int i = lane; i < length(m); i += warp.size())
          source[at + i] = value(me, at + i, round);
        const std::uint64_t* const what = local && m == 4 ? local : source + at;
        if (turn % 2 == 0) {
          nvshmemi_ibgda_put_nbi_warp<true>(number(dest + at), number(what), bytes, to, queue, lane,
                                            0);
        } else {
          nvshmemi_ibgda_put_nbi_warp(number(dest + at), number(what), bytes, to, queue, lane, m);
        }
      }
      group.sync();
      if (group.thread_rank() == group.size() - 1)
        nvshmemi_ibgda_amo_nonfetch_add(flag, -turn - 1, to, queue);
      // The sum of -2, -3, ..., so that both signs and words of several bytes are there.
      const int sum = -(turn * (turn + 3)) / 2;
      if (group.thread_rank() == 0) gshmem_int_wait_until(flag, GSHMEM_CMP_EQ, sum);
      group.sync();
      for (int m = 0; m < kMessages; ++m) {
        for (int i = lane; i < length(m); i += warp.size()) {
          const int at = m * kWords + i;
          SPMD_EQ(log, dest[at], local && m == 4 ? outside(i) : value(from, at, round), round);
        }
      }
      group.sync();
      if (group.thread_rank() == 0) {
        nvshmemi_ibgda_amo_nonfetch_add(reply, 1, from, queue + 1);
        gshmem_int_wait_until(reply, GSHMEM_CMP_EQ, turn);
      }
      group.sync();
    }
  }

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, Adds adds, std::uint64_t* data,
                            const std::uint64_t* local, int* words, int rounds) const {
    if (adds == Adds::kBlock) return send(ctx, log, Block{}, 0, data, local, words, rounds);
    const int mine = ctx.thread_rank() / static_cast<int>(Warp{}.size());
    send(ctx, log, Warp{}, mine, data, local, words, rounds);
  }
};

void test_words(Pe& pe, WordAfterData::Adds adds, std::uint64_t* data) {
  // Only host threads can read it.
  std::vector<std::uint64_t> outside;
  for (int i = 0; i < WordAfterData::kWords; ++i) outside.push_back(WordAfterData::outside(i));
  pe.run({.blocks = 1, .threads = WordAfterData::kWarps * pe.warp()}, WordAfterData{}, adds, data,
         static_cast<const std::uint64_t*>(pe.on_gpu() ? nullptr : outside.data()),
         reinterpret_cast<int*>(data + WordAfterData::kAll - WordAfterData::kWarps),
         pe.rounds(pe.on_network() ? 2000 : 200));
  pe.barrier();
}

/// The barrier of DeepEP's kernels: quiet of all queues, and a counter at each PE. Before it, every
/// warp puts data to all PEs, on other queues in each round.
struct QuietOfQueues {
  static constexpr int kWords = 300;

  GSHMEM_FN static void barrier(const LaunchContext& ctx, int* counters) {
    const int me = ctx.my_pe(), n = ctx.n_pes();
    const int each = ibgda_get_state()->num_rc_per_pe * ibgda_get_state()->num_devices_initialized;
    for (int i = ctx.thread_rank(); i < each * n; i += ctx.block_size())
      nvshmemi_ibgda_quiet((me + i / each) % n, i % each);
    if (ctx.thread_rank() == 0) ++counters[me];
    ctx.block().sync();
    const int count = counters[me];
    for (int pe = ctx.thread_rank(); pe < n; pe += ctx.block_size()) {
      if (pe == me) continue;
      const std::uint64_t address = nvshmemi_get_p2p_ptr(number(counters + me), me, pe);
      if (address == 0) {
        nvshmemi_ibgda_rma_p(counters + me, count, pe, 0);
      } else {
        device::fence_release_system();
        device::store_flag(reinterpret_cast<unsigned*>(address), static_cast<unsigned>(count));
      }
      gshmem_int_wait_until(counters + pe, GSHMEM_CMP_GE, count);
    }
    ctx.block().sync();
  }

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* data, int* counters,
                            int rounds) const {
    const Warp warp;
    const int lane = warp.thread_rank(), mine = ctx.thread_rank() / static_cast<int>(warp.size());
    const int warps = ctx.block_size() / static_cast<int>(warp.size());
    const int me = ctx.my_pe(), n = ctx.n_pes();
    for (int pe = 0; pe < n; ++pe) {
      const void* const mapped = gshmem_ptr(data, pe);
      SPMD_EQ(log, nvshmemi_get_p2p_ptr(number(data), me, pe),
              pe == me ? number(data) : number(mapped));
    }
    std::uint64_t* const source = data + n * kWords;
    for (int turn = 1; turn <= rounds; ++turn) {
      const std::uint64_t round = static_cast<std::uint64_t>(turn);
      for (int i = ctx.thread_rank(); i < kWords; i += ctx.block_size())
        source[i] = mix(round, static_cast<std::uint64_t>(me * kWords + i));
      ctx.block().sync();
      for (int pe = mine; pe < n; pe += warps)
        nvshmemi_ibgda_put_nbi_warp<true>(number(data + me * kWords), number(source),
                                          kWords * sizeof(*source), pe, turn, lane, 0);
      ctx.block().sync();
      barrier(ctx, counters);
      for (int i = ctx.thread_rank(); i < n * kWords; i += ctx.block_size())
        SPMD_EQ(log, data[i], mix(round, static_cast<std::uint64_t>(i)), round);
      ctx.block().sync();
      barrier(ctx, counters);
    }
  }
};

/// Adds to a word of 64 bits of this PE, as for messages that a PE has for itself.
struct AddHere {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* word) const {
    for (const int value : {5, -2})
      nvshmemi_ibgda_amo_nonfetch_add(word, value, ctx.my_pe(), 1, true);
    SPMD_EQ(log, *word, std::uint64_t{0x100000002});
  }
};

}  // namespace

SPMD_TEST(a_word_follows_the_data_that_a_warp_has_put_on_its_queue) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  SymmetricArray<std::uint64_t> data(WordAfterData::kAll);
  test_words(pe, WordAfterData::Adds::kWarp, data.data());
}

SPMD_TEST(a_word_follows_the_data_that_other_warps_have_put_on_its_queue) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  SymmetricArray<std::uint64_t> data(WordAfterData::kAll);
  test_words(pe, WordAfterData::Adds::kBlock, data.data());
}

SPMD_TEST_WITH_HEAP(a_word_follows_the_data_on_its_queue_where_the_heap_has_grown,
                    std::size_t{4} << 20) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  SymmetricArray<std::uint64_t> more((std::size_t{8} << 20) / sizeof(std::uint64_t));
  const abi::DeviceState& state = *gshmemi_ambient()->state;
  SPMD_CHECK(pe, reinterpret_cast<const char*>(more.data()) >= state.heap + state.heap_bytes);
  test_words(pe, WordAfterData::Adds::kWarp, more.data());
}

SPMD_TEST(quiet_of_all_queues_completes_their_puts) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  const auto n = static_cast<std::size_t>(pe.n());
  SymmetricArray<std::uint64_t> data((n + 1) * QuietOfQueues::kWords);
  SymmetricArray<int> counters(n);
  pe.run({.blocks = 1, .threads = 2 * pe.warp()}, QuietOfQueues{}, data.data(), counters.data(),
         pe.rounds(pe.on_network() ? 1000 : 20));
  pe.barrier();
}

SPMD_TEST(a_local_addition_to_a_word_carries_to_its_upper_half) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  SymmetricArray<std::uint64_t> word(1);
  gshmem_uint64_p(word.data(), 0xffffffff, pe.me());
  gshmem_quiet();
  pe.run({.blocks = 1, .threads = 1}, AddHere{}, word.data());
}

// Several NICs per PE: all of them carry puts and gets, and operations on words that other PEs'
// atomics may use arrive by the first one. SPMD_RAILS is the number that the leg tests; one by
// default.
#include "tests/spmd/handles.h"

#include <cstdlib>
#include <cstring>
#include <vector>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

constexpr int kWords = 16;
constexpr unsigned kBlocks = 12;
constexpr char kNotByQueues[] = "one PE, or PEs that map each other";

unsigned rails_of_leg() {
  const char* text = std::getenv("SPMD_RAILS");
  return text ? static_cast<unsigned>(std::atoi(text)) : 1;
}

/// The entries that were ever published to PE `pe`, by the rail of their queue; and the number of
/// rails.
struct CountEntries {
  static constexpr std::size_t kMost = 8;

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, std::int32_t handle,
                            std::uint64_t* by_rail, int pe) const {
    const Context by = ctx.on(handle);
    by.quiet();  // it posts an entry itself, once
    const abi::NicView& nic = by.state().nic;
    for (std::uint32_t i = 0; i < nic.per_pe; ++i) {
      const std::uint32_t at = static_cast<std::uint32_t>(pe) * nic.per_pe + i;
      const device::Queue queue(nic.queues + at);
      const std::uint64_t ready = device::load_acquire_gpu(&queue.cursor()->ready);
      by_rail[i % nic.rails] += device::PublishedWord::end(ready);
    }
    by_rail[kMost] = nic.rails;
    by_rail[kMost + 1] = (nic.flags & abi::kNicFlush) != 0;
  }
};

/// One thread of each block transfers data to PE `pe` and back.
struct Transfers {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::int32_t handle,
                            std::uint64_t* data, int pe) const {
    const Context by = ctx.on(handle);
    const int block = ctx.block_rank();
    std::uint64_t *to = data + 3 * block * kWords, *source = to + kWords, *back = source + kWords;
    for (int i = 0; i < kWords; ++i) {
      source[i] = mix(static_cast<std::uint64_t>(block), static_cast<std::uint64_t>(i));
    }
    by.put_nbi(Thread{}, to, source, kWords, pe);
    by.quiet();
    by.get(Thread{}, back, to, kWords, pe);
    for (int i = 0; i < kWords; ++i) {
      SPMD_EQ(log, back[i], source[i], static_cast<std::uint64_t>(block * kWords + i + 1));
    }
  }
};

/// Every kind of call that may change a word which atomics also change.
struct Atomics {
  static constexpr std::uint64_t kAdds = 2, kSignals = 4;

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::int32_t handle,
                            std::uint64_t* words, std::uint64_t* data, int pe) const {
    const Context by = ctx.on(handle);
    std::uint64_t *to = data + 3 * ctx.block_rank() * kWords, *source = to + kWords;
    const Signal signal{words + 1, 1, Signal::kAdd};
    by.atomic_add(words, 1, pe);
    (void)by.atomic_fetch_add(words, 1, pe);
    by.signal(signal, pe);
    by.put_signal(Thread{}, to, source, kWords, signal, pe);
    by.put_signal_nbi(Thread{}, to, source, kWords, signal, pe);
    // The source is outside of the heap, so the data is inside of entries.
    const std::uint64_t outside[kWords] = {};
    by.put_signal(Thread{}, to, outside, kWords, signal, pe);
    by.p(words + 2, 5, pe);
    by.quiet();
    SPMD_EQ(log, by.atomic_fetch(words + 2, pe), 5);
  }
};

using Counts = std::vector<std::uint64_t>;

Counts count(Pe& pe, std::int32_t handle) {
  SymmetricArray<std::uint64_t> by_rail(CountEntries::kMost + 2);
  pe.run({}, CountEntries{}, handle, by_rail.data(), pe.next());
  Counts counts(CountEntries::kMost + 2);
  gshmem_uint64_get(counts.data(), by_rail.data(), counts.size(), pe.me());
  return counts;
}
std::uint64_t rails_of(const Counts& counts) { return counts[CountEntries::kMost]; }
bool posts_flushes(const Counts& counts) { return counts[CountEntries::kMost + 1] != 0; }

/// Do no two PEs map each other? All PEs get the same answer.
bool by_queues(const Pe& pe) {
  return pe.n() > 1 && !std::getenv("SPMD_PES_PER_HOST") && !pe.maps(pe.next());
}

void test_transfers(Pe& pe, std::int32_t handle, const Counts& expected) {
  SymmetricArray<std::uint64_t> data(3 * kBlocks * kWords);
  const Counts before = count(pe, handle);
  pe.run({.blocks = kBlocks}, Transfers{}, handle, data.data(), pe.next());
  const Counts after = count(pe, handle);
  for (std::size_t rail = 0; rail < expected.size(); ++rail) {
    SPMD_EQ(pe, after[rail] - before[rail] >= expected[rail], true, rail + 1);
  }
  pe.barrier();
}

void test_atomics(Pe& pe, std::int32_t handle) {
  SymmetricArray<std::uint64_t> words(3), data(3 * kBlocks * kWords);
  const Counts before = count(pe, handle);
  pe.run({.blocks = kBlocks}, Atomics{}, handle, words.data(), data.data(), pe.next());
  const Counts after = count(pe, handle);
  SPMD_CHECK(pe, after[0] - before[0] >= 7 * kBlocks);
  for (std::size_t rail = 1; rail < CountEntries::kMost; ++rail) {
    SPMD_EQ(pe, after[rail], before[rail], rail + 1);
  }
  pe.barrier();
  SPMD_EQ(pe, gshmem_uint64_g(words.data(), pe.next()), Atomics::kAdds * kBlocks);
  SPMD_EQ(pe, gshmem_uint64_g(words.data() + 1, pe.next()), Atomics::kSignals * kBlocks);
  pe.barrier();
}

}  // namespace

SPMD_TEST(every_rail_carries_puts_and_gets) {
  if (!by_queues(pe)) return pe.skip(kNotByQueues);
  SPMD_EQ(pe, rails_of(count(pe, GSHMEM_CTX_DEFAULT)), rails_of_leg());
  test_transfers(pe, GSHMEM_CTX_DEFAULT, Counts(rails_of_leg(), 2 * kBlocks / rails_of_leg()));
}

SPMD_TEST(atomics_signals_and_p_arrive_by_the_first_rail) {
  if (!by_queues(pe)) return pe.skip(kNotByQueues);
  test_atomics(pe, GSHMEM_CTX_DEFAULT);
}

SPMD_TEST(queue_handles_take_rails_in_turn_and_atomics_the_first) {
  if (!by_queues(pe)) return pe.skip(kNotByQueues);
  OwnedQueues queues(pe, 4);
  std::uint64_t other_rails = 0;
  for (int k = 0; k < queues.list().count; ++k) {
    const std::int32_t handle = queues.list().handle[k];
    const std::uint64_t rails = rails_of(count(pe, handle));
    SPMD_CHECK(pe, rails == 1 || rails == 2);
    Counts expected(rails, 0);
    expected.back() = 2 * kBlocks;
    test_transfers(pe, handle, expected);
    test_atomics(pe, handle);
    other_rails += rails - 1;
  }
  SPMD_EQ(pe, other_rails > 0, rails_of_leg() > 1);
}

SPMD_TEST(quiets_post_to_no_exclusive_queue) {
  if (!by_queues(pe)) return pe.skip(kNotByQueues);
  const auto is = [](const char* variable, const char* value) {
    const char* const now = std::getenv(variable);
    return now != nullptr && std::strcmp(now, value) == 0;
  };
  const bool asked_for = is("GSHMEM_QUIET", "visible") || is("GSHMEM_IB_RELAXED_ORDERING", "1");
  SPMD_EQ(pe, posts_flushes(count(pe, GSHMEM_CTX_DEFAULT)), rails_of_leg() > 1 || asked_for);
  OwnedContexts contexts(pe, 1, GSHMEM_CTX_PRIVATE, OwnedContexts::Queues::kOwn);
  SPMD_EQ(pe, posts_flushes(count(pe, contexts.list().handle[0])), false);
  pe.barrier();
}

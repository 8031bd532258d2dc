// The heap grows: allocations of random sizes beyond what is there from the start, every kind of
// call on what is new, many threads at once, kernels that run and contexts that are open while it
// grows, and its limit.
#include "tests/spmd/all_in_kernel.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kHeap = 4 * kMiB;  // GSHMEM_SYMMETRIC_PART is larger, and the limit much more

bool has_grown_at(const void* p) {
  const abi::DeviceState& state = *gshmemi_ambient()->state;
  return static_cast<const char*>(p) >= state.heap + state.heap_bytes;
}

/// An allocation whose first and last bytes are used; the rest takes no memory in CPU mode.
struct Allocation {
  static constexpr std::size_t kEdge = 3000;
  char* data;
  std::size_t bytes;
  std::uint64_t seed;

  [[nodiscard]] std::vector<std::uint8_t> edge(int of, int which) const {
    std::vector<std::uint8_t> made(std::min(kEdge, bytes / 2));
    const std::uint64_t mine = mix(seed, static_cast<std::uint64_t>(2 * of + which));
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = pattern(mine, i);
    return made;
  }
  [[nodiscard]] char* at(int which) const {
    return which == 0 ? data : data + bytes - std::min(kEdge, bytes / 2);
  }
  /// Puts this PE's edges to PE `to`.
  void put(Pe& pe, int to) const {
    for (const int which : {0, 1}) {
      const std::vector<std::uint8_t> mine = edge(pe.me(), which);
      gshmem_putmem(at(which), mine.data(), mine.size(), to);
    }
  }
  /// Checks that this PE has the edges of PE `from`, by its own reads and by those of a get.
  void check(Pe& pe, int line, int from) const {
    for (const int which : {0, 1}) {
      const std::vector<std::uint8_t> expected = edge(from, which);
      pe.equal_bytes(line, pe.read(at(which), expected.size()), expected);
      std::vector<std::uint8_t> theirs(expected.size());
      gshmem_getmem(theirs.data(), at(which), theirs.size(), pe.next());
      pe.equal_bytes(line, theirs, edge((from + 1) % pe.n(), which));
    }
  }
};

/// Allocates blocks of random sizes, the same on all PEs, from a few bytes to as much as the heap
/// had at first, until there is four times as much.
std::vector<Allocation> grow_at_random(Pe& pe) {
  Random random{pe.seed()};
  std::vector<Allocation> blocks;
  for (std::size_t sum = 0; sum < 4 * kHeap;) {
    const std::size_t bytes = 2 + (random.next() >> random.below(20) & (kHeap - 1));
    const std::size_t alignment = std::size_t{1} << random.below(23);
    auto* const data = static_cast<char*>(random.below(2) == 0 ? gshmem_malloc(bytes)
                                                               : gshmem_align(alignment, bytes));
    SPMD_CHECK(pe, data != nullptr);
    if (!data) return blocks;
    blocks.push_back({data, bytes, random.next()});
    sum += bytes;
  }
  return blocks;
}

/// Waits in the heap that was there at first, then works on memory of which it gets the address
/// only now.
struct WaitForMore {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* first) const {
    const int me = ctx.my_pe(), n = ctx.n_pes(), next = (me + 1) % n, last = (me + n - 1) % n;
    ctx.wait_until(first, Cmp::kEq, std::uint64_t{1});
    auto* const words = reinterpret_cast<std::uint64_t*>(first[1]);
    words[0] = 100 + static_cast<std::uint64_t>(me);
    gshmem_uint64_put_signal(words + 1, words, 1, words + 2, 1, GSHMEM_SIGNAL_ADD, next);
    ctx.wait_until(words + 2, Cmp::kEq, std::uint64_t{1});
    SPMD_EQ(log, words[1], 100 + static_cast<std::uint64_t>(last));
    SPMD_EQ(log, gshmem_uint64_atomic_fetch_add(words + 3, 5, next), 0u);
  }
};

/// Threads put to and get from three parts of the heap, each to another one than its neighbour, and
/// more than a queue has entries.
struct MoveByThreads {
  static constexpr std::size_t kThreads = 32, kRounds = 24, kEach = 16,
                               kArea = kThreads * kRounds * kEach, kWords = 4 * kArea;
  GSHMEM_FN static std::uint64_t value(int pe, std::size_t at) {
    return 1000000 * (static_cast<std::uint64_t>(pe) + 1) + at;
  }
  GSHMEM_FN static std::size_t begin(std::size_t round, std::size_t thread) {
    return (round * kThreads + thread) * kEach;
  }
  /// Numbers of the parts from and to which a thread puts.
  GSHMEM_FN static std::size_t from(std::size_t round, std::size_t thread) {
    return (thread + 2 * round + round / 3) % 3;
  }
  GSHMEM_FN static std::size_t to(std::size_t round, std::size_t thread) {
    return (thread + round) % 3;
  }
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, std::uint64_t* first,
                            std::uint64_t* second, std::uint64_t* third) const {
    const int me = ctx.my_pe(), next = (me + 1) % ctx.n_pes();
    const auto thread = static_cast<std::size_t>(ctx.block().thread_rank());
    std::uint64_t* const parts[] = {first, second, third};
    for (std::size_t round = 0; round < kRounds; ++round) {
      std::uint64_t* const mine = parts[from(round, thread)];
      std::uint64_t* const theirs = parts[to(round, thread)];
      const std::size_t at = begin(round, thread);
      for (std::size_t i = at; i < at + kEach; ++i) mine[i] = value(me, i);
      ctx.put_nbi(Thread{}, theirs + kArea + at, mine + at, kEach, next);
      ctx.p(theirs + 2 * kArea + at, value(me, at + 1), next);
    }
    ctx.quiet();
    for (std::size_t round = 0; round < kRounds; ++round) {
      const std::size_t at = begin(round, thread);
      ctx.get_nbi(Thread{}, parts[from(round, thread)] + 3 * kArea + at,
                  parts[to(round, thread)] + kArea + at, kEach, next);
    }
    ctx.quiet();
  }
};

}  // namespace

SPMD_TEST_WITH_HEAP(heap_grows_by_allocations_of_random_sizes_that_hold_data, kHeap) {
  const std::vector<Allocation> blocks = grow_at_random(pe);
  SPMD_CHECK(pe, !blocks.empty() && has_grown_at(blocks.back().data));
  for (const Allocation& block : blocks) block.put(pe, pe.next());
  pe.barrier();
  for (const Allocation& block : blocks) block.check(pe, __LINE__, pe.previous());
  pe.barrier();
  for (const Allocation& block : blocks) gshmem_free(block.data);
  // Repeated allocations have the places of the first ones: the heap does not grow again.
  const std::vector<Allocation> again = grow_at_random(pe);
  for (std::size_t i = 0; i < std::min(blocks.size(), again.size()); ++i)
    SPMD_EQ(pe, static_cast<void*>(again[i].data), static_cast<void*>(blocks[i].data), i);
}

SPMD_TEST_WITH_HEAP(every_kind_of_call_reaches_memory_by_which_the_heap_has_grown, kHeap) {
  constexpr std::size_t kWords = 20 * kMiB / sizeof(std::uint64_t), kCount = 3000;
  const auto n = static_cast<std::size_t>(pe.n()), me = static_cast<std::size_t>(pe.me());
  const gshmem_ctx_t old_context = [] {
    gshmem_ctx_t made = GSHMEM_CTX_INVALID;
    (void)gshmem_ctx_create(0, &made);
    return made;
  }();
  auto* const words = static_cast<std::uint64_t*>(gshmem_calloc(kWords, sizeof(std::uint64_t)));
  SPMD_CHECK(pe, words != nullptr && has_grown_at(words));
  if (!words) return;
  if (pe.c_api_in_kernels())
    pe.run({.blocks = 1, .threads = 1}, AllInKernel(), words, pe.maps(pe.next()), false);
  pe.barrier();
  std::uint64_t* const more = words + kWords - 2 * (n + 1) * kCount;
  std::vector<std::uint64_t> mine(kCount);
  for (std::size_t i = 0; i < kCount; ++i) mine[i] = 10 * i + me;
  gshmem_uint64_put(more, mine.data(), kCount, pe.me());
  gshmem_quiet();
  SPMD_EQ(pe, gshmem_uint64_fcollect(GSHMEM_TEAM_WORLD, more + kCount, more, kCount), 0);
  for (std::size_t of = 0; of < n; ++of)
    SPMD_EQ(pe, gshmem_uint64_g(more + kCount * (of + 2) - 1, pe.me()), 10 * (kCount - 1) + of);
  std::uint64_t* const sums = more + (n + 1) * kCount;
  SPMD_EQ(pe, gshmem_uint64_sum_reduce(GSHMEM_TEAM_WORLD, sums, more, kCount), 0);
  SPMD_EQ(pe, gshmem_uint64_g(sums + kCount - 1, pe.me()), 10 * (kCount - 1) * n + n * (n - 1) / 2);
  // A context that is older than the memory; what it has posted is complete at its quiet.
  SPMD_CHECK(pe, old_context != GSHMEM_CTX_INVALID);
  gshmem_ctx_uint64_put(old_context, words + 50, words + 8, 2, pe.next());
  gshmem_ctx_uint64_atomic_add(old_context, words + 52, 3, pe.next());
  gshmem_ctx_quiet(old_context);
  // (PEs of one process on one GPU have one default stream, in which their barriers would wait for
  // each other.)
  if (pe.c_api_in_kernels()) {
    gshmemx_uint64_put_on_stream(words + 60, words, 2, pe.next(), nullptr);
    gshmemx_barrier_all_on_stream(nullptr);
    synchronize();
  }
  pe.barrier();
  if (pe.c_api_in_kernels()) {
    const auto previous = static_cast<std::uint64_t>(pe.previous()) + 1;
    SPMD_EQ(pe, gshmem_uint64_g(words + 61, pe.me()), 1000 * previous + 1);
  }
  SPMD_EQ(pe, gshmem_uint64_g(words + 52, pe.me()), 3u);
  pe.barrier();
  gshmem_ctx_destroy(old_context);
  gshmem_free(words);
}

SPMD_TEST_WITH_HEAP(kernels_that_run_while_the_heap_grows_use_what_is_new, kHeap) {
  if (pe.on_gpu()) return pe.skip("it has not been tried on GPUs");
  auto* const first = static_cast<std::uint64_t*>(gshmem_calloc(2, sizeof(std::uint64_t)));
  std::thread kernel([&, handle = gshmemx_pe_handle()] {
    SPMD_EQ(pe, gshmemx_bind_thread(handle), 0);
    pe.run({.blocks = 1, .threads = 1}, WaitForMore(), first);
    SPMD_EQ(pe, gshmemx_bind_thread(nullptr), 0);
  });
  std::vector<void*> parts;
  for (int i = 0; i < 3; ++i) parts.push_back(gshmem_calloc(24 * kMiB, 1));
  SPMD_CHECK(pe, parts.back() != nullptr && has_grown_at(parts.back()));
  gshmem_uint64_p(first + 1, reinterpret_cast<std::uintptr_t>(parts.back()), pe.me());
  gshmem_quiet();
  gshmem_uint64_atomic_set(first, 1, pe.me());
  kernel.join();
  pe.barrier();
  SPMD_EQ(pe, gshmem_uint64_g(static_cast<std::uint64_t*>(parts.back()) + 3, pe.me()), 5u);
  for (void* p : parts) gshmem_free(p);
  gshmem_free(first);
}

SPMD_TEST_WITH_HEAP(threads_move_data_between_all_parts_of_the_heap_at_once, kHeap) {
  using Move = MoveByThreads;
  // The second is all of a part, and the third does not fit into the first part.
  constexpr std::size_t kBytes[] = {8 * Move::kWords, 64 * kMiB, 2 * kHeap};
  std::uint64_t* parts[3] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    parts[i] = static_cast<std::uint64_t*>(gshmem_malloc(kBytes[i]));
    SPMD_CHECK(pe, parts[i] != nullptr && has_grown_at(parts[i]) == (i > 0));
    if (!parts[i]) return;
  }
  const abi::DeviceState& state = *gshmemi_ambient()->state;
  const auto range_of = [&](const std::uint64_t* part) {
    return device::range_at(
        state, static_cast<std::uint64_t>(reinterpret_cast<const char*>(part) - state.heap));
  };
  SPMD_CHECK(pe, range_of(parts[1]) != range_of(parts[2]));
  pe.run({.blocks = 1, .threads = Move::kThreads}, Move(), parts[0], parts[1], parts[2]);
  pe.barrier();
  std::vector<std::vector<std::uint64_t>> data;
  for (const std::uint64_t* part : parts) {
    const std::vector<std::uint8_t> bytes = pe.read(part, 8 * Move::kWords);
    data.emplace_back(Move::kWords);
    std::memcpy(data.back().data(), bytes.data(), bytes.size());
  }
  for (std::size_t round = 0; round < Move::kRounds; ++round) {
    for (std::size_t thread = 0; thread < Move::kThreads; ++thread) {
      const auto& to = data[Move::to(round, thread)];
      const auto& from = data[Move::from(round, thread)];
      const std::size_t at = Move::begin(round, thread);
      SPMD_EQ(pe, to[2 * Move::kArea + at], Move::value(pe.previous(), at + 1), at);
      for (std::size_t i = at; i < at + Move::kEach; ++i) {
        SPMD_EQ(pe, to[Move::kArea + i], Move::value(pe.previous(), i), i);
        SPMD_EQ(pe, from[3 * Move::kArea + i], Move::value(pe.me(), i), i);
      }
    }
  }
  pe.barrier();
  for (std::uint64_t* part : parts) gshmem_free(part);
}

SPMD_TEST_WITH_HEAP(realloc_moves_what_outgrows_the_heap_into_more, kHeap) {
  std::vector<std::uint8_t> data(kHeap / 2);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = pattern(mix(pe.seed(), 1), i);
  void* const small = gshmem_malloc(data.size());
  SPMD_CHECK(pe, !has_grown_at(small));
  pe.write(small, data);
  void* const moved = gshmem_realloc(small, 30 * kMiB);
  SPMD_CHECK(pe, moved != nullptr && has_grown_at(moved));
  pe.equal_bytes(__LINE__, pe.read(moved, data.size()), data);
  // It shrinks in place, what it has left is free, and so is its old place.
  SPMD_CHECK(pe, gshmem_realloc(moved, data.size()) == moved);
  void* const old = gshmem_malloc(data.size());
  SPMD_CHECK(pe, old == small);
  gshmem_free(old);
  gshmem_free(moved);
}

SPMD_TEST_WITH_HEAP(more_than_the_limit_is_null_and_the_rest_can_be_had, kHeap) {
  SPMD_CHECK(pe, gshmem_malloc(std::size_t{1} << 45) == nullptr);
  std::vector<void*> parts;
  while (void* p = gshmem_malloc(10 * kMiB)) parts.push_back(p);
  // GSHMEM_SYMMETRIC_LIMIT is 224 MiB, of which the first part may be rounded up.
  SPMD_CHECK(pe, parts.size() >= 20 && parts.size() <= 22);
  void* const rest = gshmem_malloc(kHeap / 2);
  SPMD_CHECK(pe, rest != nullptr);
  gshmem_free(rest);
  for (void* p : parts) gshmem_free(p);
}

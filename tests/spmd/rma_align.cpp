// Puts and gets with every alignment of source and destination and of sizes around each boundary of
// the copy loops: the right bytes arrive, and no byte beside them changes.
#include "tests/sanitizers/sanitizers.h"
#include "tests/spmd/smem.h"

#include <algorithm>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

enum class Way { kPut, kGet };

/// One transfer: `size` bytes from source + from to target + to.
struct Transfer {
  std::uint32_t from, to, size;
};

struct Transfers {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, const Transfer* list, int count,
                            std::uint8_t* target, const std::uint8_t* source, Scope scope,
                            Way way) const {
    const int peer = (ctx.my_pe() + 1) % ctx.n_pes();
    const Share share = share_of(ctx, scope);
    with_group(ctx, scope, [&](auto group) {
      for (int i = share.index; i < count; i += share.count) {
        const Transfer t = list[i];
        if (way == Way::kPut)
          ctx.put(group, target + t.to, source + t.from, t.size, peer);
        else
          ctx.get(group, target + t.to, source + t.from, t.size, peer);
      }
      ctx.quiet();
    });
  }
};

/// The transfers are made by blocks that have given shared memory.
struct TransfersBySmem {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, const Transfer* list, int count,
                            std::uint8_t* target, const std::uint8_t* source, Scope scope, Way way,
                            std::uint8_t* host) const {
    with_smem(ctx, log, host,
              [&] { Transfers{}(ctx, log, list, count, target, source, scope, way); });
  }
};

class AlignTest {
 public:
  static constexpr std::size_t kTransfers = 512;
  /// Number of bytes after the last target that are checked.
  static constexpr std::uint32_t kGuard = 64;
  static constexpr std::uint8_t kUntouched = 0xc3;

  AlignTest(Pe& pe, std::size_t target_bytes, std::size_t source_bytes)
      : pe_(pe),
        list_(kTransfers),
        target_(target_bytes + kGuard),
        source_(source_bytes),
        smem_(2 * kSmemBytes),
        of_previous_(data_of(pe.previous())),
        of_next_(data_of(pe.next())) {
    pe.write(source_.data(), data_of(pe.me()));
  }

  /// Makes every transfer of `list` in every scope and in both directions; the targets must not
  /// overlap.
  void check(const std::vector<Transfer>& list) {
    begin(list);
    for (const Scope scope : kScopes) check(list, scope, shape_of(pe_, scope));
  }
  /// Copies by blocks that give shared memory.
  void check_by_smem(const std::vector<Transfer>& list) {
    by_smem_ = true;
    check(list);
    by_smem_ = false;
  }
  /// Copies by blocks of `threads` threads.
  void check_blocks(const std::vector<Transfer>& list, unsigned threads) {
    begin(list);
    check(list, Scope::kBlock, {.blocks = 2, .threads = threads});
  }

 private:
  void begin(const std::vector<Transfer>& list) {
    end_ = 0;
    for (const Transfer& t : list) end_ = std::max(end_, t.to + t.size + kGuard);
    gshmem_putmem(list_.data(), list.data(), list.size() * sizeof(Transfer), pe_.me());
  }
  void check(const std::vector<Transfer>& list, Scope scope, const LaunchShape& shape) {
    check(list, scope, shape, Way::kPut);
    check(list, scope, shape, Way::kGet);
  }
  /// Returns the data of the PE in `source_`.
  [[nodiscard]] std::vector<std::uint8_t> data_of(int pe) const {
    const std::uint64_t seed = mix(pe_.seed(), static_cast<std::uint64_t>(pe));
    std::vector<std::uint8_t> data(source_.size());
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = pattern(seed, i);
    return data;
  }
  void check(const std::vector<Transfer>& list, Scope scope, const LaunchShape& shape, Way way) {
    std::vector<std::uint8_t> expected(end_, kUntouched);
    pe_.write(target_.data(), expected);
    pe_.barrier();
    const int count = static_cast<int>(list.size());
    if (by_smem_) {
      pe_.run(shape, TransfersBySmem{}, list_.data(), count, target_.data(), source_.data(), scope,
              way, smem_.data());
    } else {
      pe_.run(shape, Transfers{}, list_.data(), count, target_.data(), source_.data(), scope, way);
    }
    pe_.barrier();
    const std::vector<std::uint8_t>& data = way == Way::kPut ? of_previous_ : of_next_;
    for (const Transfer& t : list) {
      std::copy_n(data.begin() + t.from, t.size, expected.begin() + t.to);
    }
    pe_.equal_bytes(__LINE__, pe_.read(target_.data(), end_), expected);
    pe_.barrier();
  }

  Pe& pe_;
  SymmetricArray<Transfer> list_;
  SymmetricArray<std::uint8_t> target_, source_, smem_;
  bool by_smem_ = false;
  std::vector<std::uint8_t> of_previous_, of_next_;  ///< the data of their sources
  std::uint32_t end_ = 0;                            ///< end of the part of `target_` in use
};

}  // namespace

SPMD_TEST(every_alignment_of_source_and_destination_copies_the_right_bytes) {
  constexpr std::uint32_t kSlot = 400, kSizes = 12;
  AlignTest test(pe, 32 * kSizes * kSlot, 1024);
  Random random{pe.seed()};
  // On a GPU the alignment changes the copy loop. On a CPU copies are memcpy, and on the network
  // alignment only changes the entry: there some combinations are tested, with each seed others.
  const bool all = pe.on_gpu() && pe.rounds(10) == 10;
  const std::uint32_t step = all ? 1 : 11;
  const auto first = [&] { return static_cast<std::uint32_t>(random.below(step)); };
  for (std::uint32_t to = first(); to < 32; to += step) {
    std::vector<Transfer> list;
    for (std::uint32_t from = first(); from < 32; from += step) {
      for (std::uint32_t i = 0; i < kSizes; ++i) {
        const auto size = static_cast<std::uint32_t>(i < 3 ? random.below(20) : random.below(301));
        list.push_back({from + 32 * (i % 8), (from * kSizes + i) * kSlot + 32 + to, size});
      }
    }
    test.check(list);
  }
}

SPMD_TEST(sizes_around_the_boundaries_of_the_copy_loop_copy_the_right_bytes) {
  // Rounds of the GPU loop are depth * width words (device/pe/copy.h): the same depth for a thread
  // (width 1) and a warp (32), 4 for a block (100, see shape_of).
  constexpr std::uint32_t kDepth = GSHMEM_COPY_DEPTH;
  constexpr std::uint32_t kWordsPerRound[] = {kDepth, kDepth * 32, 4 * 100};
  constexpr std::uint32_t kDifferences[] = {0, 1, 8, 4, 2}, kWords[] = {16, 1, 8, 4, 1};
  constexpr std::uint32_t kLargest = std::max(kWordsPerRound[1], kWordsPerRound[2]);
  constexpr std::uint32_t kMost = 3 * 16 * kLargest + 64, kSizes = 7;
  AlignTest test(pe, 2 * kSizes * kMost + 3 * kSizes * 256, kMost);
  // Elsewhere the loop is memcpy or entries, which differ at most between aligned and not.
  const std::size_t differences = pe.on_gpu() ? 5 : 2;
  for (std::size_t d = 0; d < differences; ++d) {
    for (const std::uint32_t words : kWordsPerRound) {
      std::vector<Transfer> list;
      std::uint32_t slot = 0;
      for (std::uint32_t rounds = 1; rounds <= 3; ++rounds) {
        const std::uint32_t bytes = rounds * words * kWords[d];
        for (const int around : {-17, -1, 0, 1, 15, 16, 33}) {
          if (around < 0 && bytes < static_cast<std::uint32_t>(-around)) continue;
          const std::uint32_t offset = static_cast<std::uint32_t>(list.size()) * 5 % 16;
          const std::uint32_t size = bytes + static_cast<std::uint32_t>(around);
          list.push_back({16 + (offset ^ kDifferences[d]), slot + 64 + offset, size});
          slot += (64 + offset + size + 63) / 64 * 64;
        }
      }
      test.check(list);
    }
  }
}

SPMD_TEST(every_rest_of_the_copy_loop_copies_the_right_bytes) {
  // After a round of the loop, 0 to depth words for each thread and some for a part of a warp.
  constexpr std::uint32_t kDepth = GSHMEM_COPY_DEPTH, kSlot = 2 * kDepth * 32 * 16 + 64;
  AlignTest test(pe, kDepth * kSlot, kSlot);
  Random random{pe.seed()};
  for (const std::uint32_t width : {1u, 32u}) {
    std::vector<Transfer> list;
    for (std::uint32_t rest = 0; rest < kDepth; ++rest) {
      const auto part = static_cast<std::uint32_t>(random.below(width));
      const std::uint32_t rounds = rest % 2 * kDepth;
      list.push_back({16, rest * kSlot + 16, ((rounds + rest) * width + part) * 16});
    }
    test.check(list);
  }
}

SPMD_TEST(copies_by_given_shared_memory_copy_the_right_bytes) {
  // Sizes from which groups use it, and around those of stages (device/pe/smem.h); blocks check for
  // it from 64 KiB. Unaligned data takes the usual path.
  constexpr std::uint32_t kStage = (kSmemGiven - device::kSmemStateBytes) / device::kSmemStages;
  constexpr std::uint32_t kSizes[] = {1008,           1024,       1047,
                                      kStage + 16,    4 * kStage, 4 * kStage + 5,
                                      9 * kStage - 1, 64 << 10,   (64 << 10) + 3 * kStage + 31};
  constexpr std::uint32_t kBases[][2] = {{0, 0}, {32, 16}, {3, 3}, {8, 0}, {0, 12}};
  constexpr std::uint32_t kLargest = (64 << 10) + 4 * kStage;
  const std::size_t bases = pe.on_gpu() ? 5 : 1;  // otherwise copies do not depend on it
  AlignTest test(pe, 5 * 9 * kLargest / 3, kLargest);
  std::vector<Transfer> list;
  std::uint32_t slot = 64;
  for (std::size_t b = 0; b < bases; ++b) {
    for (const std::uint32_t size : kSizes) {
      list.push_back({kBases[b][0], slot + kBases[b][1], size});
      slot += (size + 127) / 64 * 64;
    }
  }
  test.check_by_smem(list);
}

SPMD_TEST(large_transfers_by_small_blocks_copy_the_right_bytes) {
  // A large copy of a block begins with the words up to a cache line of the target, which may be
  // more than it has threads.
  constexpr std::uint32_t kBytes = (64u << 10) + 13;
  AlignTest test(pe, kBytes + 256, kBytes + 256);
  for (const unsigned threads : {1u, 4u, 32u}) {
    for (const std::uint32_t difference : {0u, 2u, 1u}) {
      if (!pe.on_gpu() && threads > 4) continue;  // the rest is memcpy
      test.check_blocks({{17 ^ difference, 128 + 17, kBytes}}, threads);
    }
  }
}

namespace {

/// One block puts elements that are all zeros or all ones; a thread of another one watches those
/// that its PE receives.
template <class T>
struct PutElements {
  static constexpr std::size_t kCount = 3;

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, T* elements, const T* values,
                            T* stop, int rounds, Scope scope) const {
    const int peer = (ctx.my_pe() + 1) % ctx.n_pes();
    const int last = ctx.grid_size() - 1;
    if (ctx.block_rank() == last && ctx.thread_rank() == 0) {
      // On a CPU with fewer cores than threads the putting threads need the watchers' core.
      for (unsigned looks = 0; device::load_acquire(stop) == 0; ++looks) {
        watch(log, elements);
        device::pause(looks % 64);
      }
    } else if (ctx.block_rank() == 0) {
      with_group(ctx, scope, [&](auto group) {
        for (int i = 0; i < rounds; ++i) {
          // gshmem-check: ignore, since this library promises more here than the specification
          ctx.put(group, elements, values + static_cast<std::size_t>(i) % 2 * kCount, kCount, peer);
        }
      });
      ctx.block().sync();
      ctx.quiet();
      // gshmem-check: ignore, since it is read without a wait
      if (ctx.thread_rank() == 0) ctx.p(stop, T{1}, peer);
      ctx.quiet();
    }
  }
  GSHMEM_FN static void watch(Log log, const T* elements) {
    for (std::size_t k = 0; k < kCount; ++k) {
      const T seen = device::load_relaxed(elements + k);
      if (seen != 0) SPMD_EQ(log, seen, static_cast<T>(~T{0}), k);
    }
  }
};

template <class T>
void put_elements(Pe& pe, int rounds) {
  constexpr std::size_t kCount = PutElements<T>::kCount;
  SymmetricArray<T> elements(kCount + 1), values(2 * kCount + 1), stop(1);
  const std::vector<std::uint8_t> ones(kCount * sizeof(T), 0xff);
  pe.write(values.data() + 1 + kCount, ones);
  for (const Scope scope : kScopes) {
    gshmem_putmem(stop.data(), std::vector<T>(1).data(), sizeof(T), pe.me());
    pe.barrier();
    const LaunchShape shape{.blocks = 2, .threads = scope == Scope::kThread ? 1 : 2 * pe.warp()};
    // The first of them is not at a larger word's boundary.
    pe.run(shape, PutElements<T>{}, elements.data() + 1, values.data() + 1, stop.data(), rounds,
           scope);
    pe.barrier();
  }
}

}  // namespace

SPMD_TEST(elements_of_a_put_to_a_mapped_pe_are_not_torn) {
  // All PEs get the same answer: those of one host are neighbours.
  if (!pe.maps(0) || !pe.maps(pe.n() - 1)) return pe.skip("not all PEs map each other");
  const int rounds = pe.rounds(2000);
  put_elements<std::uint64_t>(pe, rounds);
  put_elements<std::uint32_t>(pe, rounds);
  put_elements<std::uint16_t>(pe, rounds);
}

SPMD_TEST(large_transfers_of_any_relative_alignment_copy_the_right_bytes) {
  // It is larger than any chunk in which a path transfers it, and on a GPU enough for all of its
  // blocks.
  constexpr std::uint32_t kBytes = (kSanitized ? 1u << 18 : 1u << 20) + 13;
  AlignTest test(pe, kBytes + 128, kBytes + 128);
  for (const std::uint32_t difference : {0u, 8u, 1u}) {
    test.check({{35 ^ difference, 67, kBytes}});
  }
}

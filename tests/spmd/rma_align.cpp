// Puts and gets of every alignment of source and destination and of sizes around each boundary of
// the copy loops: the right bytes arrive, and no byte beside them changes.
#include "tests/spmd/spmd.h"

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

class AlignTest {
 public:
  static constexpr std::size_t kTransfers = 512;
  static constexpr std::uint8_t kUntouched = 0xc3;

  AlignTest(Pe& pe, std::size_t target_bytes, std::size_t source_bytes)
      : pe_(pe), list_(kTransfers), target_(target_bytes), source_(source_bytes) {
    source_data_.resize(source_bytes);
    fill(pe.me());
    pe.write(source_.data(), source_data_);
  }

  /// Every transfer of `list` in every scope and both ways; the targets must not overlap.
  void check(const std::vector<Transfer>& list) {
    gshmem_putmem(list_.data(), list.data(), list.size() * sizeof(Transfer), pe_.me());
    for (const Scope scope : kScopes) {
      check(list, scope, Way::kPut);
      check(list, scope, Way::kGet);
    }
  }

 private:
  void fill(int pe) {
    for (std::size_t i = 0; i < source_data_.size(); ++i)
      source_data_[i] = pattern(mix(pe_.seed(), static_cast<std::uint64_t>(pe)), i);
  }
  void check(const std::vector<Transfer>& list, Scope scope, Way way) {
    std::vector<std::uint8_t> expected(target_.size(), kUntouched);
    pe_.write(target_.data(), expected);
    pe_.barrier();
    pe_.run(shape_of(pe_, scope), Transfers{}, list_.data(), static_cast<int>(list.size()),
            target_.data(), source_.data(), scope, way);
    pe_.barrier();
    fill(way == Way::kPut ? pe_.previous() : pe_.next());
    for (const Transfer& t : list) {
      std::copy_n(source_data_.begin() + t.from, t.size, expected.begin() + t.to);
    }
    pe_.equal_bytes(__LINE__, pe_.read(target_.data(), target_.size()), expected);
    pe_.barrier();
  }

  Pe& pe_;
  SymmetricArray<Transfer> list_;
  SymmetricArray<std::uint8_t> target_, source_;
  std::vector<std::uint8_t> source_data_;
};

}  // namespace

SPMD_TEST(every_alignment_of_source_and_destination_copies_the_right_bytes) {
  constexpr std::uint32_t kSlot = 400, kSizes = 12;
  AlignTest test(pe, 32 * kSizes * kSlot, 1024);
  Random random{pe.seed()};
  const std::uint32_t step = pe.rounds(10) < 10 ? 5 : 1;  // coprime to 32: all residues over runs
  for (std::uint32_t to = 0; to < 32; to += step) {
    std::vector<Transfer> list;
    for (std::uint32_t from = 0; from < 32; ++from) {
      for (std::uint32_t i = 0; i < kSizes; ++i) {
        const auto size = static_cast<std::uint32_t>(i < 3 ? random.below(20) : random.below(301));
        list.push_back({from + 32 * (i % 8), (from * kSizes + i) * kSlot + 32 + to, size});
      }
    }
    test.check(list);
  }
}

SPMD_TEST(sizes_around_the_boundaries_of_the_copy_loop_copy_the_right_bytes) {
  // Rounds of the GPU loop are depth * width words: 16 deep for a thread (width 1) and a warp (32),
  // 4 deep for a block (100, see shape_of).
  constexpr std::uint32_t kWordsPerRound[] = {16, 16 * 32, 4 * 100};
  constexpr std::uint32_t kDifferences[] = {0, 8, 4, 2, 1}, kWords[] = {16, 8, 4, 1, 1};
  constexpr std::uint32_t kSlot = 16 * 512 * 3 + 256;
  AlignTest test(pe, 24 * kSlot, kSlot + 64);
  for (std::size_t d = 0; d < 5; ++d) {
    for (const std::uint32_t words : kWordsPerRound) {
      std::vector<Transfer> list;
      for (std::uint32_t rounds = 1; rounds <= 3; ++rounds) {
        const std::uint32_t bytes = rounds * words * kWords[d];
        for (const int around : {-17, -1, 0, 1, 15, 16, 33}) {
          const auto at = static_cast<std::uint32_t>(list.size());
          const std::uint32_t offset = at * 5 % 16;
          if (around < 0 && bytes < static_cast<std::uint32_t>(-around)) continue;
          list.push_back({16 + (offset ^ kDifferences[d]), at * kSlot + 64 + offset,
                          bytes + static_cast<std::uint32_t>(around)});
        }
      }
      test.check(list);
    }
  }
}

SPMD_TEST(large_transfers_of_any_relative_alignment_copy_the_right_bytes) {
  constexpr std::uint32_t kBytes = (1u << 20) + 13;
  AlignTest test(pe, kBytes + 128, kBytes + 128);
  for (const std::uint32_t difference : {0u, 8u, 1u}) {
    test.check({{35 ^ difference, 67, kBytes}});
  }
}

// Symmetric memory: malloc, calloc, align, realloc and free, on all PEs, up to the last byte.
#include "tests/spmd/spmd.h"

#include <algorithm>
#include <bit>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// Checks for the same offset on every PE. Collective.
void check_same_offset(Pe& pe, int line, const void* p) {
  SymmetricArray<std::uint64_t> offset(1);
  const auto* heap = gshmemi_ambient()->state->heap;
  const auto mine = static_cast<std::uint64_t>(static_cast<const char*>(p) - heap);
  gshmem_uint64_p(offset.data(), mine, pe.me());
  pe.barrier();
  pe.equal(line, gshmem_uint64_g(offset.data(), pe.next()), mine);
  pe.barrier();
}

std::uint64_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

std::vector<std::uint8_t> filled(Pe& pe, std::size_t bytes) {
  std::vector<std::uint8_t> data(bytes);
  const std::uint64_t seed = mix(pe.seed(), static_cast<std::uint64_t>(pe.me()));
  for (std::size_t i = 0; i < bytes; ++i) data[i] = pattern(seed, i);
  return data;
}

}  // namespace

SPMD_TEST(malloc_gives_equal_offsets_and_separate_aligned_blocks) {
  Random random{pe.seed()};
  std::vector<std::pair<char*, std::size_t>> blocks;
  for (int i = 0; i < 40; ++i) {
    const std::size_t bytes = 1 + random.below(i % 4 ? 500 : 100000);
    auto* p = static_cast<char*>(gshmem_malloc(bytes));
    SPMD_CHECK(pe, p != nullptr);
    SPMD_EQ(pe, address(p) % 128, 0u);
    for (const auto& [other, size] : blocks)
      SPMD_CHECK(pe, p + bytes <= other || other + size <= p);
    if (i % 8 == 0) check_same_offset(pe, __LINE__, p);
    blocks.emplace_back(p, bytes);
    if (random.below(3) == 0) {
      const std::size_t victim = random.below(blocks.size());
      gshmem_free(blocks[victim].first);
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(victim));
    }
  }
  for (const auto& block : blocks) gshmem_free(block.first);
}

SPMD_TEST(malloc_of_nothing_is_null_and_free_of_null_is_fine) {
  SPMD_CHECK(pe, gshmem_malloc(0) == nullptr);
  SPMD_CHECK(pe, gshmem_calloc(0, 8) == nullptr);
  SPMD_CHECK(pe, gshmem_calloc(8, 0) == nullptr);
  SPMD_CHECK(pe, gshmem_align(64, 0) == nullptr);
  SPMD_CHECK(pe, gshmem_realloc(nullptr, 0) == nullptr);
  gshmem_free(nullptr);
}

SPMD_TEST(calloc_zeroes_memory_that_was_used) {
  constexpr std::size_t kBytes = 100000;
  void* first = gshmem_malloc(kBytes);
  pe.write(first, std::vector<std::uint8_t>(kBytes, 0xff));
  gshmem_free(first);
  void* second = gshmem_calloc(kBytes / 8, 8);
  SPMD_EQ(pe, address(second), address(first));
  // The memory of every PE is zero when calloc returns.
  std::vector<std::uint8_t> theirs(kBytes, 1);
  gshmem_getmem(theirs.data(), second, kBytes, pe.next());
  pe.equal_bytes(__LINE__, theirs, std::vector<std::uint8_t>(kBytes, 0));
  gshmem_free(second);
}

SPMD_TEST(only_calloc_writes_to_the_memory_that_it_returns) {
  constexpr std::size_t kBytes = 100000;
  const std::vector<std::uint8_t> data = filled(pe, kBytes);
  void* const first = gshmem_malloc(kBytes);
  pe.write(first, data);
  gshmem_free(first);
  using Allocate = void* (*)(std::size_t bytes);
  for (const Allocate allocate :
       {Allocate{gshmem_malloc},
        Allocate{[](std::size_t bytes) { return gshmem_align(128, bytes); }},
        Allocate{[](std::size_t bytes) { return gshmem_malloc_with_hints(bytes, 0); }},
        Allocate{[](std::size_t bytes) { return gshmem_realloc(nullptr, bytes); }}}) {
    void* const again = allocate(kBytes);
    SPMD_EQ(pe, address(again), address(first));
    pe.equal_bytes(__LINE__, pe.read(again, kBytes), data);
    gshmem_free(again);
  }
}

SPMD_TEST(calloc_that_overflows_is_null) {
  SPMD_CHECK(pe, gshmem_calloc(SIZE_MAX / 2, 3) == nullptr);
  SPMD_CHECK(pe, gshmem_calloc(SIZE_MAX, SIZE_MAX) == nullptr);
}

SPMD_TEST(align_gives_every_power_of_two_that_the_heap_has_room_for) {
  // Heaps begin at multiples of that, and grow if they lack such a place.
  const std::size_t most =
      std::min(std::bit_ceil(gshmemi_ambient()->state->heap_bytes), std::size_t{1} << 30);
  for (std::size_t alignment = 1; alignment != 0; alignment *= 2) {
    void* odd = gshmem_malloc(1);  // so that the next block would not be aligned by chance
    auto* p = static_cast<std::uint64_t*>(gshmem_align(alignment, 100));
    SPMD_EQ(pe, p != nullptr, alignment <= most, alignment);
    gshmem_free(odd);
    if (!p) continue;
    SPMD_EQ(pe, address(p) % alignment, 0u, alignment);
    check_same_offset(pe, __LINE__, p);
    gshmem_uint64_p(p + 11, alignment + static_cast<std::size_t>(pe.me()), pe.next());
    pe.barrier();
    auto* more = static_cast<std::uint64_t*>(gshmem_realloc(p, 200));
    SPMD_EQ(pe, gshmem_uint64_g(more + 11, pe.next()),
            alignment + static_cast<std::size_t>(pe.me()), alignment);
    pe.barrier();
    gshmem_free(more);
  }
  SPMD_EQ(pe, gshmemx_last_fault(nullptr), GSHMEMX_SUCCESS);
}

SPMD_TEST(realloc_keeps_the_contents) {
  constexpr std::size_t kBytes = 10000;
  const std::vector<std::uint8_t> data = filled(pe, kBytes);
  void* p = gshmem_realloc(nullptr, kBytes);
  pe.write(p, data);
  void* behind = gshmem_malloc(64);  // so that it cannot grow in place
  void* moved = gshmem_realloc(p, 3 * kBytes);
  SPMD_CHECK(pe, moved != p && moved != nullptr);
  check_same_offset(pe, __LINE__, moved);
  pe.equal_bytes(__LINE__, pe.read(moved, kBytes), data);
  void* smaller = gshmem_realloc(moved, kBytes / 2);
  SPMD_EQ(pe, address(smaller), address(moved));  // in place
  pe.equal_bytes(__LINE__, pe.read(smaller, kBytes / 2),
                 std::vector<std::uint8_t>(data.begin(), data.begin() + kBytes / 2));
  // It is more than the heap has: the result is null, and the block stays.
  SPMD_CHECK(pe, gshmem_realloc(smaller, std::size_t{1} << 45) == nullptr);
  pe.equal_bytes(__LINE__, pe.read(smaller, kBytes / 2),
                 std::vector<std::uint8_t>(data.begin(), data.begin() + kBytes / 2));
  SPMD_CHECK(pe, gshmem_realloc(smaller, 0) == nullptr);
  // The remaining memory can be allocated again: where it was first, and where it was last.
  void* const first = gshmem_malloc(kBytes);
  SPMD_EQ(pe, address(first), address(p));
  void* const last = gshmem_malloc(3 * kBytes);
  SPMD_EQ(pe, address(last), address(moved));
  for (void* block : {first, last, behind}) gshmem_free(block);
}

SPMD_TEST(puts_right_after_a_realloc_are_not_overwritten_by_old_data) {
  constexpr std::size_t kWords = 200'000;
  for (int round = 0; round < 10; ++round) {
    auto* words = static_cast<std::uint64_t*>(gshmem_calloc(kWords, sizeof(std::uint64_t)));
    void* const after = gshmem_malloc(64);  // so that it moves
    words = static_cast<std::uint64_t*>(gshmem_realloc(words, 2 * kWords * sizeof(*words)));
    for (int to = 0; to < pe.n(); ++to)
      gshmem_uint64_p(words + kWords - 1 - static_cast<std::size_t>(pe.me()), 5, to);
    pe.barrier();
    for (std::size_t from = 0; from < static_cast<std::size_t>(pe.n()); ++from)
      SPMD_EQ(pe, gshmem_uint64_g(words + kWords - 1 - from, pe.me()), 5u);
    pe.barrier();
    gshmem_free(words);
    gshmem_free(after);
  }
}

SPMD_TEST(heap_can_be_used_up_and_used_again) {
  SPMD_CHECK(pe, gshmem_malloc(std::size_t{1} << 45) == nullptr);
  constexpr std::size_t kChunk = 3 << 20;
  std::vector<void*> chunks;
  while (void* p = gshmem_malloc(kChunk)) chunks.push_back(p);
  SPMD_CHECK(pe, chunks.size() > 1);
  // The last byte of the last chunk is there, on every PE.
  auto* last = static_cast<char*>(chunks.back()) + kChunk - 1;
  gshmem_char_p(last, 'x', pe.next());
  pe.barrier();
  SPMD_EQ(pe, gshmem_char_g(last, pe.me()), 'x');
  const std::size_t count = chunks.size();
  for (void* p : chunks) gshmem_free(p);
  chunks.clear();
  while (void* p = gshmem_malloc(kChunk)) chunks.push_back(p);
  SPMD_EQ(pe, chunks.size(), count);
  for (void* p : chunks) gshmem_free(p);
}

SPMD_TEST(symmetric_array_moves_and_frees_once) {
  void* before = gshmem_malloc(64);
  gshmem_free(before);
  {
    SymmetricArray<int> first(10);
    int* data = first.data();
    SPMD_EQ(pe, address(data), address(before));
    SymmetricArray<int> second(std::move(first));
    SPMD_CHECK(pe, second.data() == data && second.size() == 10);
    SPMD_CHECK(pe, first.data() == nullptr && first.size() == 0);
    SymmetricArray<int> third(5);
    third = std::move(second);
    SPMD_CHECK(pe, third.data() == data && third.size() == 10);
    SPMD_CHECK(pe, third.to_vector(pe.me()) == std::vector<int>(10));
    pe.barrier();
    third.write(std::vector<int>{4, 5}, pe.next(), 3);
    pe.barrier();
    SPMD_EQ(pe, third.to_vector(pe.me())[4], 5);
    pe.barrier();
  }
  // All of it has been freed.
  void* after = gshmem_malloc(64);
  SPMD_EQ(pe, address(after), address(before));
  gshmem_free(after);
}

SPMD_TEST(malloc_with_hints_is_malloc) {
  void* const plain = gshmem_malloc(100);
  gshmem_free(plain);
  void* const hinted =
      gshmem_malloc_with_hints(100, GSHMEM_MALLOC_ATOMICS_REMOTE | GSHMEM_MALLOC_SIGNAL_REMOTE);
  SPMD_EQ(pe, address(hinted), address(plain));
  gshmem_free(hinted);
}

SPMD_TEST(symmetric_array_too_large_throws) {
  using Words = SymmetricArray<std::uint64_t>;
  const auto code = [](std::size_t count, Words::Fill fill) {
    try {
      const Words array(count, fill);
    } catch (const Failure& failure) {
      return failure.code();
    }
    return static_cast<int>(GSHMEMX_SUCCESS);
  };
  // The size in bytes of the second would be 8.
  for (const std::size_t count : {std::size_t{1} << 42, (std::size_t{1} << 61) + 1}) {
    for (const auto fill : {Words::Fill::kZero, Words::Fill::kNone}) {
      SPMD_EQ(pe, code(count, fill), static_cast<int>(GSHMEMX_ERROR_OUT_OF_MEMORY), count);
    }
  }
}

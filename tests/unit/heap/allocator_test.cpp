// Tests what the symmetric heap relies on: exact errors, no overlap, merging of holes, equal
// results for equal calls. The exhaustive and the random test compare with CheckedAllocator's
// model.
#include "checked_allocator.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <deque>
#include <iterator>
#include <random>
#include <set>

namespace gshmem {
namespace {

using Catch::Contains;
using test::CheckedAllocator;

/// Returns the error that `call` throws, as "code: text", or "none".
template <class F>
std::string error_of(F call) {
  try {
    call();
  } catch (const Error& error) {
    return strprintf("%d: %s", static_cast<int>(error.code()), error.what());
  }
  return "none";
}

TEST_CASE("capacity_is_rounded_down_to_the_granularity") {
  CHECK(OffsetAllocator(1000).capacity() == 896);
  OffsetAllocator tiny(127);
  CHECK(tiny.capacity() == 0);
  CHECK(tiny.empty());
  CHECK(tiny.largest_free() == 0);
  CHECK(tiny.blocks().empty());
  CHECK_THAT(error_of([&] { (void)tiny.allocate(1); }),
             Contains("2: ") && Contains("0 bytes of 0 bytes free"));
  CHECK_THAT(error_of([] { OffsetAllocator bad(1024, 24); }), Contains("1: ") && Contains("24"));
}

TEST_CASE("alignment_above_the_granularity_keeps_the_padding_usable") {
  OffsetAllocator heap(1 << 20);
  const auto first = heap.allocate(128);
  const auto aligned = heap.allocate(128, 1 << 16);
  CHECK(first == 0);
  CHECK(aligned == 1 << 16);
  CHECK(heap.allocate((1 << 16) - 128) == 128);  // exactly the padding
  CHECK(heap.bytes_free() == (1 << 20) - (1 << 16) - 128);
}

TEST_CASE("the_smallest_hole_that_fits_is_taken_and_the_lowest_of_equal_ones") {
  OffsetAllocator heap(128 * 12);
  std::vector<std::uint64_t> at;
  for (const unsigned units : {3u, 1u, 2u, 1u, 2u, 1u, 2u})
    at.push_back(heap.allocate(128 * units));
  for (const std::size_t hole : {0u, 2u, 4u}) heap.free(at[hole]);  // holes of 3, 2 and 2 granules
  CHECK(heap.allocate(128 * 2) == at[2]);
  CHECK(heap.allocate(128) == at[4]);
  CHECK(heap.allocate(128 * 3) == at[0]);
}

TEST_CASE("out_of_memory_names_requested_free_and_largest_block") {
  OffsetAllocator heap(128 * 4);
  std::vector<std::uint64_t> at;
  for (int i = 0; i < 4; ++i) at.push_back(heap.allocate(128));
  heap.free(at[0]);
  heap.free(at[2]);
  const auto before = heap.blocks().size();
  CHECK(error_of([&] { (void)heap.allocate(200, 64); }) ==
        "2: symmetric heap: 200 bytes requested (aligned to 64), 256 bytes of 512 bytes free, "
        "largest free block 128 bytes");
  CHECK(heap.blocks().size() == before);
  CHECK(heap.bytes_free() == 256);
}

TEST_CASE("a_fragmented_heap_becomes_one_block_again_in_any_order_of_frees") {
  const auto order = GENERATE(std::vector<int>{0, 1, 2, 3}, std::vector<int>{3, 2, 1, 0},
                              std::vector<int>{1, 3, 0, 2}, std::vector<int>{2, 0, 3, 1});
  OffsetAllocator heap(512);
  std::vector<std::uint64_t> at;
  for (int i = 0; i < 4; ++i) at.push_back(heap.allocate(128));
  for (const int i : order) heap.free(at[static_cast<std::size_t>(i)]);
  CHECK(heap.empty());
  CHECK(heap.blocks().size() == 1);
  CHECK(heap.allocate(512) == 0);
}

TEST_CASE("bad_requests_are_refused_by_name") {
  OffsetAllocator heap(4096);
  const auto max = ~std::uint64_t{0};
  CHECK_THAT(error_of([&] { (void)heap.allocate(0); }), Contains("1: ") && Contains("0 bytes"));
  CHECK_THAT(error_of([&] { (void)heap.allocate(8, 0); }),
             Contains("1: ") && Contains("of 0 bytes"));
  CHECK_THAT(error_of([&] { (void)heap.allocate(8, 48); }),
             Contains("1: ") && Contains("48") && Contains("power of two"));
  CHECK_THAT(error_of([&] { (void)heap.allocate(max); }),
             Contains("1: ") && Contains("address space"));
  CHECK_THAT(error_of([&] { (void)heap.allocate(max - 100, 256); }), Contains("1: "));
  CHECK_THAT(error_of([&] { (void)heap.allocate(max / 2 + 2, max / 2 + 1); }), Contains("1: "));
  CHECK_THAT(error_of([&] { (void)heap.allocate(max - 128); }), Contains("2: "));
  CHECK(heap.empty());
}

TEST_CASE("freeing_an_unused_offset_is_an_error_with_the_reason") {
  OffsetAllocator heap(1 << 20);
  const auto a = heap.allocate(1000), b = heap.allocate(128);
  const auto freed = [&](std::uint64_t offset) { return error_of([&] { heap.free(offset); }); };
  CHECK(freed(a + 128) ==
        "1: offset 128 is inside the allocation of 1000 bytes that starts at offset 0");
  CHECK(freed(b + 128) == "1: offset 1152 was never allocated");
  CHECK(freed(1 << 20) == "1: offset 1048576 was never allocated");
  CHECK(freed(~std::uint64_t{0}) == "1: offset 18446744073709551615 was never allocated");
  heap.free(a);
  CHECK(freed(a) == "1: offset 0 was already freed");
  CHECK(freed(a + 7) == "1: offset 7 was never allocated");
  for (int i = 0; i < 64; ++i) heap.free(heap.allocate(128, 256));  // pushes `a` out of the memory
  for (int i = 0; i < 64; ++i) heap.free(heap.allocate(4096, 4096));
  CHECK(freed(128) ==
        "1: offset 128 is not allocated: it was freed long ago, or was never allocated");
  CHECK_THAT(error_of([&] { (void)heap.size_of(128); }),
             Contains("1: offset 128 is not allocated"));
  CHECK_THAT(error_of([&] { (void)heap.reallocate(128, 8); }), Contains("1: offset 128"));
  CHECK(heap.size_of(b) == 128);
  // The first offset after all that was ever allocated.
  OffsetAllocator bytes(8, 1);
  CHECK(bytes.allocate(1) == 0);
  CHECK(error_of([&] { bytes.free(1); }) == "1: offset 1 was never allocated");
}

TEST_CASE("a_block_can_be_requested_by_its_offset") {
  OffsetAllocator heap(1 << 16, 256);
  CHECK(heap.allocate_at(1024, 300));
  CHECK(heap.size_of(1024) == 300);
  for (const std::uint64_t taken : {1024u, 1280u, 768u}) CHECK_FALSE(heap.allocate_at(taken, 512));
  CHECK_FALSE(heap.allocate_at(2048 + 128, 1));  // not aligned
  CHECK_FALSE(heap.allocate_at(1 << 16, 1));
  CHECK_FALSE(heap.allocate_at(UINT64_MAX - 255, 1));
  CHECK_FALSE(heap.allocate_at((1 << 16) - 256, 257));
  CHECK(heap.allocate_at((1 << 16) - 256, 256));
  CHECK(heap.allocate_at(768, 256));   // up to the next block
  CHECK(heap.allocate_at(1536, 256));  // after the last block
  CHECK_THROWS_AS(heap.allocate_at(0, 0), Error);
  CHECK(heap.allocate(768) == 0);
  for (const std::uint64_t used : {0u, 768u, 1024u, 1536u, (1u << 16) - 256}) heap.free(used);
  CHECK(heap.empty());
  CHECK(heap.blocks().size() == 1);
}

TEST_CASE("a_block_grows_and_shrinks_in_place") {
  OffsetAllocator heap(128 * 8);
  const auto a = heap.allocate(128), b = heap.allocate(128 * 2), c = heap.allocate(128);
  CHECK(heap.reallocate(a, 100) == a);
  CHECK(heap.size_of(a) == 100);
  CHECK_FALSE(heap.reallocate(a, 129));
  CHECK(heap.size_of(a) == 100);
  CHECK(heap.reallocate(b, 1) == b);  // leaves a hole of one granule
  CHECK(heap.bytes_free() == 128 * 5);
  CHECK(heap.reallocate(b, 256) == b);
  CHECK(heap.bytes_free() == 128 * 4);
  CHECK(heap.reallocate(c, 128 * 5) == c);  // all that is left
  CHECK(heap.bytes_free() == 0);
  CHECK_THAT(error_of([&] { (void)heap.reallocate(c, 0); }),
             Contains("1: ") && Contains("0 bytes"));
  CHECK_THAT(error_of([&] { (void)heap.reallocate(c, ~std::uint64_t{0}); }), Contains("1: "));
  for (const auto offset : {a, b, c}) heap.free(offset);
  CHECK(heap.blocks().size() == 1);
}

/// Tries every call in every layout that any sequence of calls can reach.
TEST_CASE("every_reachable_layout_of_a_small_heap_agrees_with_the_model") {
  constexpr std::uint64_t kUnits = 7;
  using Layout = std::map<std::uint64_t, std::uint64_t>;
  std::set<Layout> seen{{}};
  const auto origin =
      GENERATE(std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{7});
  std::deque<CheckedAllocator> todo{CheckedAllocator(kUnits, 1, origin)};
  std::size_t calls = 0;
  const auto reach = [&](const CheckedAllocator& heap) {
    heap.verify();
    ++calls;
    if (seen.insert(heap.used()).second) todo.push_back(heap);
  };
  while (!todo.empty()) {
    const CheckedAllocator heap = todo.front();
    todo.pop_front();
    for (std::uint64_t bytes = 1; bytes <= kUnits + 1; ++bytes) {
      for (const unsigned alignment : {1u, 2u, 4u, 8u}) {
        CheckedAllocator next = heap;
        next.allocate(bytes, alignment);
        reach(next);
      }
    }
    for (std::uint64_t offset = 0; offset <= kUnits; ++offset) {
      CheckedAllocator next = heap;
      if (heap.used().count(offset) == 0) {
        next.free_wrong(offset);
        reach(next);
        continue;
      }
      next.free(offset);
      reach(next);
      for (std::uint64_t bytes = 1; bytes <= kUnits + 1; ++bytes) {
        next = heap;
        next.reallocate(offset, bytes);
        reach(next);
      }
    }
  }
  // Layouts of 7 granules: L(n) = L(n-1) [free granule] + sum of L(n-k) [used block of k].
  std::vector<std::size_t> layouts{1};
  for (std::size_t n = 1; n <= kUnits; ++n) {
    std::size_t count = layouts[n - 1];
    for (std::size_t k = 1; k <= n; ++k) count += layouts[n - k];
    layouts.push_back(count);
  }
  CHECK(seen.size() == layouts.back());
  CHECK(calls > seen.size());
}

std::uint64_t seed_of_run() {
  if (const char* fixed = std::getenv("GSHMEM_TEST_SEED")) return std::strtoull(fixed, nullptr, 0);
  return std::random_device{}();
}

/// Makes one random call; the same generator state gives the same call.
void random_call(CheckedAllocator& heap, std::mt19937_64& random) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const auto size = [&] { return 1 + below(std::uint64_t{1} << below(13)); };
  const auto kind = below(8);
  if (kind < 4 || heap.used().empty()) {
    const std::uint64_t bytes = size();
    heap.allocate(bytes, std::uint64_t{1} << below(13));
    return;
  }
  const auto pick = static_cast<std::ptrdiff_t>(below(heap.used().size()));
  const std::uint64_t offset = std::next(heap.used().begin(), pick)->first;
  if (kind == 4) {
    heap.reallocate(offset, size());
  } else {
    heap.free(offset);
    if (kind == 5) heap.free_wrong(offset);
  }
}

TEST_CASE("random_calls_agree_with_the_model_and_merge_back_to_one_block") {
  const std::uint64_t seed = seed_of_run();
  INFO("repeat with GSHMEM_TEST_SEED=" << seed);
  std::mt19937_64 random(seed), random_other_pe(seed);
  constexpr std::uint64_t kGranularity = OffsetAllocator::kGranularity;
  CheckedAllocator heap(1 << 16, kGranularity, random() % 2 * 13 * kGranularity), other_pe = heap;
  (void)random_other_pe();
  for (int call = 0; call < 20000; ++call) {
    INFO("call " << call);
    REQUIRE_NOTHROW(random_call(heap, random));
    REQUIRE_NOTHROW(random_call(other_pe, random_other_pe));
    if (call % 16 == 0) REQUIRE_NOTHROW(heap.verify());
  }
  REQUIRE(heap.used() == other_pe.used());
  while (!heap.used().empty()) {
    const auto pick = static_cast<std::ptrdiff_t>(random() % heap.used().size());
    REQUIRE_NOTHROW(heap.free(std::next(heap.used().begin(), pick)->first));
  }
  REQUIRE_NOTHROW(heap.verify());
  CHECK(heap.allocator().blocks().size() == 1);
}

}  // namespace
}  // namespace gshmem

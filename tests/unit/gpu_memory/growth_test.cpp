// Heaps on GPUs of the double that grow: what is new is mapped by all PEs, or by none.
#include <gshmem/gshmem.hpp>

#include "tests/unit/gpu_memory/four_gpus.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <string>

using namespace gshmem;
using namespace gshmem::test;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::map<std::string, std::string> variables(const std::map<std::string, std::string>& more = {}) {
  std::map<std::string, std::string> all{{"GSHMEM_P2P_GROUP", "0"},
                                         {"GSHMEM_SYMMETRIC_PART", "8M"}};
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}

/// Stores to the next PE's copy of the first and the last word of a block, and checks its own.
bool words_cross(const Runtime& runtime, char* block, std::size_t bytes) {
  const int me = runtime.my_pe(), next = (me + 1) % 4, previous = (me + 3) % 4;
  auto* const first = reinterpret_cast<int*>(block);
  auto* const last = reinterpret_cast<int*>(block + bytes) - 1;
  if (!gshmem_ptr(last, next)) return false;
  gshmem_int_p(first, 10 + me, next);
  gshmem_int_p(last, 20 + me, next);
  gshmem_barrier_all();
  const bool right =
      gshmem_int_g(first, me) == 10 + previous && gshmem_int_g(last, me) == 20 + previous;
  gshmem_barrier_all();
  return right;
}

void check_clean() {
  CHECK(heaps().clean());
  for (const std::string& violation : heaps().violations) FAIL_CHECK(violation);
}

}  // namespace

TEST_CASE("heaps_on_gpus_grow_by_memory_that_all_pes_map") {
  four_gpus(variables());
  std::atomic<int> wrong{0};
  run_threads(4, [&](const Runtime& runtime) {
    const auto count = [&](bool right) { wrong += right ? 0 : 1; };
    // The whole of a part, what shares a part with others, and more than a part.
    for (const std::size_t bytes : {8 * kMiB, kMiB, 3 * kMiB, 20 * kMiB}) {
      auto* const block = static_cast<char*>(gshmem_malloc(bytes));
      count(block && words_cross(runtime, block, bytes));
    }
  });
  CHECK(wrong == 0);
  check_clean();
}

TEST_CASE("gpu_that_is_full_makes_an_allocation_null_on_all_and_leaves_nothing_mapped") {
  four_gpus(variables());
  StderrCapture capture;
  std::atomic<int> wrong{0};
  run_threads(4, [&](const Runtime& runtime) {
    const auto count = [&](bool right) { wrong += right ? 0 : 1; };
    const bool tells = runtime.my_pe() == 0;
    const auto fill = [&](bool full) {
      gshmem_barrier_all();
      if (tells && full) heaps().full = {2};
      if (tells && !full) heaps().full.clear();
      gshmem_barrier_all();
    };
    gshmem_barrier_all();
    const int handles = heaps().handles, mappings = heaps().mappings;
    fill(true);
    count(!gshmem_malloc(20 * kMiB));
    gshmem_barrier_all();
    count(heaps().handles == handles && heaps().mappings == mappings);
    fill(false);
    auto* const block = static_cast<char*>(gshmem_malloc(20 * kMiB));
    count(block && words_cross(runtime, block, 20 * kMiB));
  });
  CHECK(wrong == 0);
  const std::string said = text_of(capture);
  for (const char* text :
       {"gshmem[0] WARN: gshmem_malloc: symmetric heap: 20971520 bytes (20 MiB) requested ",
        ", and it does not grow: it failed on PE 2: a later part of the symmetric heap of ",
        "does not fit on the GPU ("})
    CHECK_THAT(said, Catch::Contains(text));
  check_clean();
}

TEST_CASE("heaps_that_peers_map_by_fabric_handles_do_not_grow") {
  four_gpus(variables({{"GSHMEM_P2P_GROUP", "2"}, {"GSHMEM_FABRIC", "on"}}));
  StderrCapture capture;
  std::atomic<int> grown{0};
  run_threads(4, [&](const Runtime&) { grown += gshmem_malloc(20 * kMiB) ? 1 : 0; });
  CHECK(grown == 0);
  const std::string said = text_of(capture);
  for (const char* text :
       {", and it does not grow: its memory cannot be mapped by PE ",
        ", which maps this one's heap by a fabric handle; raise GSHMEM_SYMMETRIC_SIZE"})
    CHECK_THAT(said, Catch::Contains(text));
  check_clean();
}

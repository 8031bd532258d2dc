// Tests how a heap grows where memory is short, which no machine of tests has in these amounts.
#include "host/base/run_phase.h"
#include "host/runtime/symmetric_heap.h"

#include <gshmem/abi/state.h>

#include <catch2/catch.hpp>

#include <cstring>
#include <optional>
#include <string>

using namespace gshmem;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kGiB = std::uint64_t{1} << 30;

/// A job of one PE, whose heap of 80 GiB is in use. Its GPU has more memory, of which `left` is
/// left. No memory is accessed.
struct Job final : Collectives {
  [[nodiscard]] int rank() const noexcept override { return 0; }
  [[nodiscard]] int size() const noexcept override { return 1; }
  void allgather(const void* send, void* recv, std::size_t bytes) override {
    if (bytes == 0) is_given_back = true;
    if (bytes != 0) std::memcpy(recv, send, bytes);
  }
  std::uint64_t add(std::uint64_t bytes) {
    if (error) throw *error;
    CHECK(is_given_back);
    if (bytes > left) {
      is_given_back = false;
      throw PhaseError(GSHMEMX_ERROR_OUT_OF_MEMORY, "it failed on PE 1: full");
    }
    left -= bytes;
    ++parts;
    next += bytes;
    return next - bytes;
  }
  [[nodiscard]] void* allocate(std::uint64_t bytes) {
    return heap.allocate("gshmem_malloc", bytes, 1, false);
  }

  std::uint64_t left;
  std::optional<Error> error = {};
  bool is_given_back = true;  ///< the PEs have synchronized since the last failure
  int parts = 0;
  std::uint64_t next = 128 * kGiB;
  SymmetricHeap heap{{.heap = reinterpret_cast<char*>(std::uintptr_t{1} << 45),
                      .bytes = abi::kInternalBytes + 80 * kGiB,
                      .alignment = kGiB,
                      .gpu = nullptr},
                     {.limit = 1024 * kGiB,
                      .step = 512 * kMiB,
                      .granularity = 2 * kMiB,
                      .add = [this](std::uint64_t bytes, std::uint64_t) { return add(bytes); }},
                     *this,
                     [] {}};

  explicit Job(std::uint64_t there_is) : left(there_is) { REQUIRE(allocate(80 * kGiB) != nullptr); }
};

}  // namespace

TEST_CASE("growth_by_small_blocks_takes_all_memory_that_is_left_in_few_parts") {
  constexpr std::uint64_t kLeft = 9 * kGiB + 6 * kMiB;
  Job job(kLeft);
  std::uint64_t blocks = 0;
  while (job.allocate(kMiB)) ++blocks;
  CHECK(blocks == kLeft / kMiB);
  CHECK(job.left == 0);
  CHECK(job.parts < 20);  // of 256
  CHECK(job.is_given_back);
}

TEST_CASE("growth_takes_just_the_block_where_nothing_larger_fits") {
  Job job(9 * kGiB);
  CHECK(job.allocate(9 * kGiB));
  CHECK(job.parts == 1);
  CHECK_FALSE(job.allocate(1));
  CHECK(job.is_given_back);
}

TEST_CASE("error_of_growth_that_only_one_pe_has_begins_with_the_call") {
  Job job(kGiB);
  job.error = Error(GSHMEMX_ERROR_PEER_FAILED, "PE 1 died");
  CHECK_THROWS_WITH(job.allocate(kMiB), "gshmem_malloc: PE 1 died");
}

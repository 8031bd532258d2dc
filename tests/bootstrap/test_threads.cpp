#include "tests/bootstrap/conformance.h"
#include "tests/bootstrap/run_ranks.h"

#include <catch2/catch.hpp>

#include <array>
#include <mutex>

using namespace gshmem;
using namespace gshmem::test;

namespace {

/// The ranks of one job; thread r uses element r.
using Ranks = std::vector<std::unique_ptr<bootstrap::Bootstrap>>;

std::string run_job(Ranks& ranks, const std::function<void(bootstrap::Bootstrap&)>& body) {
  return run_threads(static_cast<int>(ranks.size()),
                     [&](int rank) { body(*ranks[static_cast<std::size_t>(rank)]); });
}

}  // namespace

TEST_CASE("threads_conform", "[threads]") {
  const int size = GENERATE(1, 2, 3, 7);
  Ranks lives[2] = {bootstrap::create_threads(size, 60), bootstrap::create_threads(size, 60)};
  CHECK(run_threads(size, [&](int rank) {
          int life = 0;
          conformance([&] { return std::move(lives[life++][static_cast<std::size_t>(rank)]); });
        }) == "");
}

TEST_CASE("single_conforms", "[single]") { conformance(bootstrap::create_single); }

TEST_CASE("threads_missing_rank_is_named_after_the_timeout", "[threads]") {
  Ranks ranks = bootstrap::create_threads(4, 0.2);
  CHECK(run_job(ranks, [](bootstrap::Bootstrap& boot) {
          if (boot.rank() == 1 || boot.rank() == 3) return;
          expect_error(GSHMEMX_ERROR_TIMEOUT, "ranks 1, 3", [&] { boot.barrier(); });
          expect_error(GSHMEMX_ERROR_TIMEOUT, "ranks 1, 3", [&] { boot.barrier(); });
        }) == "");
}

TEST_CASE("threads_departed_rank_is_named", "[threads]") {
  Ranks ranks = bootstrap::create_threads(3, 60);
  CHECK(run_threads(3, [&](int rank) {
          auto mine = std::move(ranks[static_cast<std::size_t>(rank)]);
          mine->barrier();
          if (rank == 2) return mine.reset();
          expect_error(GSHMEMX_ERROR_PEER_FAILED,
                       "rank 2 left the job while others wait in bootstrap barrier",
                       [&] { mine->barrier(); });
        }) == "");
}

TEST_CASE("threads_pending_collective_is_named", "[threads]") {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
    const Ranks ranks = bootstrap::create_threads(2, 0.001);
    std::array<char, 4> all{};
    expect_error(GSHMEMX_ERROR_TIMEOUT,
                 bytes == 0 ? "bootstrap barrier timed out" : "bootstrap allgather timed out",
                 [&] { ranks[0]->allgather("ab", all.data(), bytes); });
  }
}

TEST_CASE("threads_rank_may_leave_after_its_last_collective", "[threads]") {
  for (int round = 0; round < 200; ++round) {
    Ranks ranks = bootstrap::create_threads(3, 60);
    CHECK(run_threads(3, [&](int rank) {
            auto mine = std::move(ranks[static_cast<std::size_t>(rank)]);
            mine->barrier();
          }) == "");
  }
}

TEST_CASE("threads_sizes_that_differ_are_an_error_on_all", "[threads]") {
  Ranks ranks = bootstrap::create_threads(3, 60);
  CHECK(run_job(ranks, [](bootstrap::Bootstrap& boot) {
          std::vector<char> buffer(100);
          const std::size_t bytes = boot.rank() == 1 ? 8 : 4;
          const std::string text = boot.rank() == 1
                                       ? "bootstrap allgather of 8 bytes, but rank 0 passes 4"
                                       : "bootstrap allgather of 4 bytes, but rank 1 passes 8";
          // The second time the sizes agree, but it is too late.
          for (const std::size_t given : {bytes, std::size_t{4}}) {
            const Error error =
                expect_error([&] { boot.allgather("12345678", buffer.data(), given); });
            expect(error.code() == GSHMEMX_ERROR_SYMMETRY, "the code");
            expect(error.what() == text, error.what());
          }
        }) == "");
}

// An init that fails on one PE, or that never ends: which error the others receive, and when.
#include "tests/spmd/bad_input/children.h"

#include <catch2/catch.hpp>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <csignal>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// Runs init on every PE; PE 1 runs `spoil` first. Returns the outcomes.
std::vector<Outcome> init_of(int n, const Environment& changes,
                             const std::function<void()>& spoil) {
  return in_children(n, quick(changes), [&](int rank) {
    if (rank == 1) spoil();
    std::printf("status %d\n", gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, nullptr));
    print_fault();
  });
}

/// Segments are files, to which this limit applies.
void limit_file_size() {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{4096, 4096};
  setrlimit(RLIMIT_FSIZE, &little);
}

}  // namespace

TEST_CASE("bootstrap_timeout_0_means_no_limit") {
  const auto outcomes = in_children(3, quick({{"GSHMEM_BOOTSTRAP_TIMEOUT", "0"}}), [](int) {
    const Runtime runtime;
    gshmem_barrier_all();
    std::printf("pe %d of %d\n", runtime.my_pe(), runtime.n_pes());
  });
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.output, " of 3\n"));
  }
}

TEST_CASE("pe_that_cannot_make_its_segment_reports_the_reason_to_the_others") {
  // There is no time limit, and no PE waits for one. Without mapping each PE makes a segment of its
  // own.
  const auto outcomes =
      init_of(3, {{"GSHMEM_BOOTSTRAP_TIMEOUT", "0"}, {"GSHMEM_P2P", "0"}}, limit_file_size);
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    INFO(outcomes[rank].output);
    CHECK(outcomes[rank].code == 0);
    CHECK(contains(outcomes[rank].output, "status 14\n"));
    CHECK(contains(outcomes[rank].output,
                   rank == 1 ? "-1 shared memory needs a segment of "
                             : "-1 init failed on PE 1: shared memory needs a segment of "));
  }
}

TEST_CASE("first_pe_that_cannot_make_shared_objects_reports_the_reason_to_the_others") {
  const Environment endless = quick({{"GSHMEM_BOOTSTRAP_TIMEOUT", "0"}});
  const auto outcomes = in_children(2, endless, [](int rank) {
    if (rank == 0) limit_file_size();
    std::printf("status %d\n", gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, nullptr));
    print_fault();
  });
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.output, "RLIMIT_FSIZE (ulimit -f) allows "));
  }
}

TEST_CASE("bad_value_on_one_pe_is_reported_to_all_and_a_later_init_works") {
  const int bad = GENERATE(0, 1);
  const auto outcomes = in_children(2, quick({{"GSHMEM_BOOTSTRAP_TIMEOUT", "0"}}), [&](int rank) {
    if (rank == bad) setenv("GSHMEM_QP_DEPTH", "many", 1);
    std::printf("status %d\n", gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, nullptr));
    print_fault();
    unsetenv("GSHMEM_QP_DEPTH");
    std::printf("then %d\n", gshmemx_init_attr(GSHMEMX_INIT_DEFAULT, nullptr));
    gshmem_finalize();
  });
  for (int rank = 0; rank < 2; ++rank) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.output, "status 10\n"));
    const std::string where =
        rank == bad ? "-1 " : "-1 init failed on PE " + std::to_string(bad) + ": ";
    CHECK(contains(outcome.output, where + "GSHMEM_QP_DEPTH=\"many\": expected an integer"));
    CHECK(contains(outcome.output, "then 0\n"));
  }
}

TEST_CASE("heaps_of_a_host_that_do_not_fit_together_are_an_error") {
  struct sysinfo info {};
  REQUIRE(::sysinfo(&info) == 0);
  const auto machine = (info.totalram + info.totalswap) * info.mem_unit;
  const auto outcomes =
      init_of(2, {{"GSHMEM_SYMMETRIC_SIZE", std::to_string(machine / 5 * 3)}}, [] {});
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.output, "2 symmetric heaps of "));
    CHECK(contains(outcome.output, "lower GSHMEM_SYMMETRIC_SIZE"));
  }
}

namespace gshmem::spmd {
void launch_with_other_headers();  // other_headers.cpp
}

TEST_CASE("launch_by_a_unit_with_other_headers_is_refused") {
  const Outcome outcome = in_child(quick(), [] {
    const Runtime runtime;
    gshmem::launch({}, [](const gshmem::LaunchContext&) {});
    try {
      launch_with_other_headers();
    } catch (const std::exception& error) {
      std::puts(error.what());
    }
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  const std::string number = std::to_string(abi::kStateAbi);
  CHECK(contains(outcome.output,
                 "gshmem: this part of the program was compiled with "
                 "headers of another gshmem (number " +
                     std::to_string(abi::kStateAbi + 1) + "; this library's has number " + number +
                     ")"));
}

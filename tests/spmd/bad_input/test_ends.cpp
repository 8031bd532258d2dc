// PEs that end normally, and calls that come too late or twice.
#include "tests/sanitizers/sanitizers.h"
#include "tests/spmd/bad_input/children.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {
constexpr int kLeaver = 1;
}

TEST_CASE("a_process_that_exits_without_finalize_ends_none_that_does_not_wait_for_it") {
  const auto outcomes = in_children(3, quick({{"GSHMEM_FAULT", "abort"}}), [](int rank) {
    gshmem_init();
    auto* const word = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
    gshmem_barrier_all();
    if (rank == kLeaver) std::exit(5);
    usleep(1'500'000);
    gshmem_int_p(word, rank + 1, 2 - rank);
    gshmem_int_wait_until(word, GSHMEM_CMP_EQ, 3 - rank);
    std::puts("at work");
    std::exit(6);
  });
  for (int rank = 0; rank < 3; ++rank) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    INFO("PE " << rank << ": " << outcome.output);
    CHECK(outcome.code == (rank == kLeaver ? 5 : 6));
    CHECK(contains(outcome.output, "at work") == (rank != kLeaver));
    CHECK_FALSE(contains(outcome.output, "ERROR"));
  }
}

TEST_CASE("a_process_whose_signal_handler_exits_inside_a_call_ends_no_other") {
  if (kUnderTsan) skip("TSan reports every handler that exits");
  const Environment soft{{"GSHMEM_P2P", "0"}, {"GSHMEM_NIC", "soft"}};
  for (Environment path : {Environment{}, soft}) {
    path["GSHMEM_FAULT"] = "abort";
    const auto outcomes = in_children(2, quick(path), [](int rank) {
      gshmem_init();
      auto* const word = static_cast<int*>(gshmem_calloc(2, sizeof(int)));
      gshmem_barrier_all();
      if (rank == kLeaver) {
        (void)std::signal(SIGTERM, [](int) { std::exit(5); });
        const pid_t self = ::getpid();
        if (::fork() == 0) {
          usleep(300'000);
          ::kill(self, SIGTERM);
          ::_exit(0);
        }
        gshmem_int_p(word + 1, 7, 0);
        gshmem_int_wait_until(word, GSHMEM_CMP_EQ, 9);
      }
      usleep(1'000'000);
      std::puts("at work");
      std::exit(6);
    });
    for (int rank = 0; rank < 2; ++rank) {
      const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      INFO("PE " << rank << ": " << outcome.output);
      CHECK(outcome.code == (rank == kLeaver ? 5 : 6));
      CHECK(contains(outcome.output, "at work") == (rank != kLeaver));
      CHECK_FALSE(contains(outcome.output, "ERROR"));
    }
  }
}

TEST_CASE("an_object_that_is_destroyed_after_main_may_launch_and_finalize") {
  const Outcome outcome = in_child(quick(), [] {
    static constexpr auto kNothing = [](const LaunchContext& ctx) { ctx.block().sync(); };
    struct Last {
      ~Last() {
        launch({.blocks = 1, .threads = 4}, kNothing);
        gshmem_finalize();
        std::puts("finalized");
      }
    };
    static const Last last;
    gshmem_init();
    launch({.blocks = 1, .threads = 4}, kNothing);
    std::exit(0);
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "finalized"));
}

TEST_CASE("threads_that_wait_for_a_launch_take_no_signal_of_the_program") {
  const Outcome outcome = in_child(quick(), [] {
    const Runtime runtime;
    launch({.blocks = 1, .threads = 4}, [](const LaunchContext&) {});
    sigset_t waited;
    sigemptyset(&waited);
    sigaddset(&waited, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &waited, nullptr);
    ::kill(::getpid(), SIGUSR1);
    const timespec most{30, 0};
    if (sigtimedwait(&waited, nullptr, &most) == SIGUSR1) std::puts("it came");
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "it came"));
}

// Static objects of the soft NIC's libraries end before the process's threads: one exit of four
// crashed.
TEST_CASE("processes_that_exit_in_the_middle_of_work_over_the_soft_nic_do_not_crash") {
  for (int round = 0; round < 12; ++round) {
    const auto outcomes = in_children(
        2, quick({{"GSHMEM_P2P", "0"}, {"GSHMEM_NIC", "soft"}, {"GSHMEM_FAULT", "abort"}}),
        [](int rank) {
          gshmem_init();
          auto* const words = static_cast<int*>(gshmem_calloc(1000, sizeof(int)));
          gshmem_barrier_all();
          for (int i = 0; i < 1000; ++i) gshmem_int_p(words + i, i, 1 - rank);
          std::exit(5);
        });
    for (const Outcome& outcome : outcomes) {
      INFO("round " << round << ": " << outcome.output);
      CHECK(outcome.code == 5);
    }
  }
}

TEST_CASE("a_barrier_against_an_allocation_is_an_error_that_names_both") {
  const auto outcomes = in_children(2, quick({{"GSHMEM_FAULT", "abort"}}), [](int rank) {
    gshmem_init();
    if (rank == 0) gshmem_barrier_all();
    if (rank == 1) (void)gshmem_malloc(8);
  });
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.output);
    CHECK(outcome.code == 1);
    CHECK(contains(outcome.output,
                   "gshmem_barrier_all: collective calls differ: PE 0 called gshmem_barrier_all, "
                   "PE 1 called gshmem_malloc"));
  }
}

TEST_CASE("after_a_death_teams_are_split_on_no_pe") {
  const Environment soft{{"GSHMEM_P2P", "0"}, {"GSHMEM_NIC", "soft"}};
  for (const Environment& path : {Environment{}, soft}) {
    const auto outcomes = in_children(3, quick(path), [](int rank) {
      const Runtime runtime;
      gshmem_team_t pair = GSHMEM_TEAM_INVALID;
      (void)gshmem_team_split_strided(GSHMEM_TEAM_WORLD, 0, 2, 2, nullptr, 0, &pair);
      gshmem_barrier_all();
      if (rank == kLeaver) (void)raise(SIGKILL);
      while (gshmemx_last_fault(nullptr) == 0) usleep(1000);
      int made = 0;
      for (int i = 0; i < 50; ++i) {
        gshmem_team_t team = GSHMEM_TEAM_INVALID;
        made += gshmem_team_split_strided(pair, 0, 1, 2, nullptr, 0, &team) == 0 ? 1 : 0;
      }
      std::printf("made %d teams\n", made);
    });
    for (const int rank : {0, 2}) {
      INFO(outcomes[static_cast<std::size_t>(rank)].output);
      CHECK(contains(outcomes[static_cast<std::size_t>(rank)].output, "made 0 teams"));
    }
  }
}

TEST_CASE("calls_that_free_something_after_finalize_warn_and_return") {
  const Outcome outcome = in_child(quick(), [] {
    { const Runtime runtime; }
    int local = 0;
    gshmem_free(&local);
    gshmem_ctx_destroy(1 << 10);
    gshmem_team_destroy(1 << 10);
    gshmemx_buffer_unregister_all();
    gshmem_finalize();
    std::puts("still here");
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "still here"));
  for (const char* call : {"gshmem_free", "gshmem_ctx_destroy", "gshmem_team_destroy",
                           "gshmemx_buffer_unregister_all", "gshmem_finalize"})
    CHECK(contains(outcome.output,
                   std::string("WARN: ") + call + ": the library is not initialized"));
}

TEST_CASE("a_second_init_that_asks_for_another_job_fails_and_names_both") {
  const Outcome outcome = in_child(quick(), [] {
    gshmemx_uniqueid_t id{};
    gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
    if (gshmemx_get_uniqueid(&id) != 0) std::exit(4);
    const auto init = [&](int rank, int size, std::uint64_t heap) {
      (void)gshmemx_set_attr_uniqueid_args(rank, size, &id, &attr);
      attr.args.symmetric_size = heap;
      std::printf("status %d\n", gshmemx_init_attr(GSHMEMX_INIT_WITH_UNIQUEID, &attr));
      std::fflush(stdout);
    };
    init(0, 1, 0);
    init(0, 1, 1 << 20);
    init(1, 2, 0);
    init(0, 1, 1 << 21);
    gshmem_finalize();
    gshmem_finalize();
    if (gshmemx_init_status() != GSHMEMX_INIT_STATUS_NOT_INITIALIZED) std::exit(5);
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(times(outcome.output, "status 0\n") == 2);
  CHECK(times(outcome.output, "status " + std::to_string(kInvalid)) == 2);
  CHECK(contains(outcome.output, "this PE is PE 0 of 1, and a second init asks for rank 1 of 2"));
  CHECK(contains(outcome.output,
                 "this PE has a heap of 1048576 bytes, and a second init asks for one of 2097152"));
}

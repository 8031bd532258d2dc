// Init and finalize as programs with several parts call them, and the end of a job whatever the
// application's threads are doing.
#include "tests/spmd/bad_input/children.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

using namespace gshmem;
using namespace gshmem::spmd;

TEST_CASE("finalize_waits_for_a_living_pe_longer_than_init_would") {
  const auto outcomes = in_children(
      2, quick({{"GSHMEM_BOOTSTRAP_TIMEOUT", "3"}, {"GSHMEM_TIMEOUT", "3"}}), [](int rank) {
        {
          const Runtime runtime;
          gshmem_barrier_all();
          if (rank == 1) usleep(6'000'000);  // busy
          print_fault();
        }
        std::puts("finalized");
      });
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.output, "fault 0 "));
    CHECK(contains(outcome.output, "finalized"));
    CHECK_FALSE(contains(outcome.output, "WARN"));
  }
}

TEST_CASE("finalize_does_not_wait_for_a_pe_that_dies_meanwhile") {
  const auto outcomes = in_children(2, quick(), [](int rank) {
    {
      const Runtime runtime;
      gshmem_barrier_all();
      if (rank == 1) {
        usleep(300'000);
        (void)raise(SIGKILL);
      }
    }
    std::puts("finalized");
  });
  INFO(outcomes[0].output);
  CHECK(outcomes[0].code == 0);
  CHECK(contains(outcomes[0].output, "ERROR: PE 1 died"));
  CHECK(contains(outcomes[0].output, "WARN: finalize continues without the other PEs: "));
  CHECK(contains(outcomes[0].output, "finalized"));
}

TEST_CASE("an_exception_is_caught_before_the_job_ends_for_what_its_destructors_call") {
  const auto outcomes = in_children(2, quick({{"GSHMEM_FAULT", "abort"}}), [](int rank) {
    try {
      const Runtime runtime;
      const SymmetricArray<int> array(4);
      if (rank == 0) throw std::runtime_error("cannot open input.dat");
      gshmem_barrier_all();
    } catch (const std::exception& error) {
      std::printf("caught: %s\n", error.what());
    }
  });
  INFO(outcomes[0].output);
  INFO(outcomes[1].output);
  CHECK(outcomes[0].code == 0);
  CHECK(contains(outcomes[0].output, "caught: cannot open input.dat"));
  CHECK(contains(outcomes[1].output, "gshmem_barrier_all waits for PE 0, which left the job"));
}

TEST_CASE("only_the_last_finalize_leaves_the_job") {
  const auto outcomes = in_children(2, quick({{"GSHMEM_FAULT", "abort"}}), [](int) {
    gshmem_init();
    int provided = -1;
    if (gshmem_init_thread(GSHMEM_THREAD_MULTIPLE, &provided) != 0) std::exit(4);
    gshmem_finalize();
    auto* word = static_cast<int*>(gshmem_malloc(sizeof(int)));
    gshmem_barrier_all();
    std::thread([] { gshmem_finalize(); }).join();
    if (gshmemx_init_status() != GSHMEMX_INIT_STATUS_NOT_INITIALIZED) std::exit(5);
    if (word == nullptr) std::exit(6);
    gshmem_init();  // a new job needs as many calls as it had inits
    gshmem_finalize();
    if (gshmemx_init_status() != GSHMEMX_INIT_STATUS_NOT_INITIALIZED) std::exit(7);
  });
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.output);
    CHECK(outcome.code == 0);
  }
}

TEST_CASE("threads_that_init_at_once_make_one_pe") {
  for (int round = 0; round < 5; ++round) {
    const Outcome outcome = in_child(quick({{"GSHMEM_BOOTSTRAP", "single"}}), [] {
      void* handles[2] = {};
      std::thread other([&] {
        gshmem_init();
        handles[1] = gshmemx_pe_handle();
      });
      gshmem_init();
      handles[0] = gshmemx_pe_handle();
      other.join();
      if (handles[0] == nullptr || handles[0] != handles[1]) std::exit(4);
      gshmem_finalize();
      gshmem_finalize();
      if (gshmemx_pe_handle() != nullptr) std::exit(5);
    });
    INFO(outcome.output);
    CHECK(outcome.code == 0);
  }
}

TEST_CASE("job_ends_while_the_application_holds_a_stream") {
  for (const bool exits : {false, true}) {
    for (const bool reads : {true, false}) {
      const auto outcomes =
          in_children(2, quick({{"GSHMEM_FAULT", "abort"}}), [exits, reads](int rank) {
            const Runtime runtime;
            const auto hold = [reads] {
              int ends[2];
              if (::pipe(ends) != 0) std::exit(4);
              FILE* const stream = ::fdopen(ends[reads ? 0 : 1], reads ? "r" : "w");
              char line[4096] = {};
              for (;;) {  // blocks on an empty pipe, or on one that is soon full
                if (reads) (void)!std::fgets(line, sizeof(line), stream);
                if (!reads) (void)!std::fwrite(line, sizeof(line), 1, stream);
              }
            };
            gshmem_barrier_all();
            if (rank == 1 && !exits) (void)raise(SIGKILL);
            if (rank == 1) {
              std::thread(hold).detach();
              std::this_thread::sleep_for(std::chrono::milliseconds(50));
              gshmem_global_exit(42);
            }
            hold();
          });
      INFO((exits ? "exits" : "killed")
           << (reads ? ", reads: " : ", writes: ") << outcomes[0].output);
      CHECK(outcomes[0].code == (exits ? 42 : 1));
      if (exits) CHECK(outcomes[1].code == 42);
      CHECK(contains(outcomes[0].output, exits ? "PE 1 ends the job with status 42" : "PE 1 died"));
    }
  }
}

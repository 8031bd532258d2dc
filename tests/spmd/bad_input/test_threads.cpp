// Threads other than the one that called init: the effect of init and finalize on them.
#include "tests/spmd/bad_input/children.h"

#include "tests/sanitizers/sanitizers.h"

#include <catch2/catch.hpp>

#include <malloc.h>

#include <csignal>
#include <cstdio>
#include <thread>

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

void finalize_by_another_thread() { std::thread(gshmem_finalize).join(); }

/// One PE, from init to finalize, by the calling thread.
void live() {
  gshmem_init();
  void* memory = gshmem_malloc(64);
  gshmem_free(memory);
  std::printf("pe %d of %d, memory %d\n", gshmem_my_pe(), gshmem_n_pes(), memory != nullptr);
  gshmem_finalize();
}

}  // namespace

TEST_CASE("finalize_by_another_thread_is_seen_by_the_one_that_called_init") {
  const Outcome outcome = in_child(quick(), [] {
    gshmem_init();
    finalize_by_another_thread();
    std::printf("status %d, handle %p\n", gshmemx_init_status(), gshmemx_pe_handle());
    live();
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "status 0, handle (nil)\n"));
  CHECK(contains(outcome.output, "pe 0 of 1, memory 1\n"));
}

TEST_CASE("device_call_after_finalize_by_another_thread_ends_the_process_with_a_message") {
  const Outcome outcome = in_child(quick(), [] {
    gshmem_init();
    auto* word = static_cast<int*>(gshmem_malloc(sizeof(int)));
    finalize_by_another_thread();
    gshmem_int_p(word, 1, 0);
    std::puts("still here");
  });
  INFO(outcome.output);
  CHECK(outcome.code != 0);
  CHECK(outcome.code != 128 + SIGSEGV);
  CHECK(contains(outcome.output, "gshmem_int_p: the library is not initialized"));
}

TEST_CASE("thread_bound_to_a_pe_is_free_when_that_is_gone") {
  const Outcome outcome = in_child(quick(), [] {
    gshmemx_thread_world_t* world = gshmemx_thread_world_create(1);
    gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
    (void)gshmemx_set_attr_thread_args(world, 0, &attr);
    void* handle = nullptr;
    const auto founder = [&](const std::function<void()>& then) {
      std::thread([&] {
        (void)gshmemx_init_attr(GSHMEMX_INIT_THREAD_PES, &attr);
        handle = gshmemx_pe_handle();
        then();
      }).join();
    };
    founder([] {});
    std::printf("bound %d\n", gshmemx_bind_thread(handle));
    gshmem_finalize();
    std::printf("gone %p\n", gshmemx_pe_handle());

    // A new PE, perhaps at the same address.
    founder([] {});
    std::printf("apart %p\n", gshmemx_pe_handle());
    std::printf("bound %d\n", gshmemx_bind_thread(handle));
    finalize_by_another_thread();  // it belongs to no PE
    std::printf("own %d\n", gshmemx_pe_handle() == handle);
    std::thread([&] {
      (void)gshmemx_bind_thread(handle);
      gshmem_finalize();
    }).join();
    std::printf("gone %p, status %d\n", gshmemx_pe_handle(), gshmemx_init_status());
    gshmemx_thread_world_destroy(world);
    live();
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "bound 0\ngone (nil)\napart (nil)\nbound 0\n"));
  CHECK(contains(outcome.output, "own 1\n"));
  CHECK(contains(outcome.output, "gone (nil), status 0\n"));
  CHECK(contains(outcome.output, "pe 0 of 1, memory 1\n"));
}

TEST_CASE("signal_that_the_program_waits_for_ends_no_pe") {
  const auto outcomes = in_children(2, quick(), [](int) {
    const Runtime runtime;
    await_signal();
  });
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.output, "signal taken\n"));
  }
}

TEST_CASE("rank_that_fails_before_it_joins_its_world_may_retry") {
  const Outcome outcome = in_child(quick({{"GSHMEM_BOOTSTRAP_TIMEOUT", "0"}}), [] {
    gshmemx_thread_world_t* world = gshmemx_thread_world_create(2);
    const auto init = [&](int rank) {
      gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
      (void)gshmemx_set_attr_thread_args(world, rank, &attr);
      const int status = gshmemx_init_attr(GSHMEMX_INIT_THREAD_PES, &attr);
      std::printf("rank %d status %d\n", rank, status);
      if (status == GSHMEMX_SUCCESS) gshmem_finalize();
    };
    setenv("GSHMEM_TIMEOUT", "abc", 1);
    std::thread([&] { init(0); }).join();
    setenv("GSHMEM_TIMEOUT", "30", 1);
    std::thread([&] { init(1); }).join();
    std::puts("again");
    std::thread first([&] { init(0); }), second([&] { init(1); });
    first.join();
    second.join();
    gshmemx_thread_world_destroy(world);
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "rank 0 status 10\n"));
  CHECK(contains(outcome.output, "rank 1 status 12\nagain\n"));
  CHECK(contains(outcome.output, "rank 0 status 0\n"));
  CHECK(contains(outcome.output, "rank 1 status 0\n"));
}

TEST_CASE("log_lines_of_a_launch_have_the_pe") {
  const Outcome outcome = in_child(quick({{"GSHMEM_FAULT", "abort"}}), [] {
    run_threads(2, [](const Runtime& pe) {
      auto* const word = static_cast<int*>(gshmem_malloc(sizeof(int)));
      if (pe.my_pe() == 1) launch({}, [=](const LaunchContext& ctx) { ctx.p(word, 1, 7); });
      gshmem_barrier_all();
    });
  });
  INFO(outcome.output);
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.output, "gshmem[1] ERROR: p: argument pe = 7"));
  CHECK_FALSE(contains(outcome.output, "gshmem[-]"));
}

TEST_CASE("thread_belongs_to_the_pe_to_which_it_is_bound_and_to_none_before_and_after") {
  const Outcome outcome = in_child(quick(), [] {
    run_threads(2, [](const Runtime& pe) {
      gshmem_barrier_all();
      if (pe.my_pe() != 1) return;
      std::thread([mine = gshmemx_pe_handle()] {
        const auto tell = [](const char* when) {
          std::printf("%s %d\n", when, gshmemx_pe_handle() != nullptr);
          (void)gshmem_ctx_create(64, nullptr);
        };
        tell("at first");
        std::thread([] {  // PEs are created and destroyed
          gshmemx_thread_world_t* const world = gshmemx_thread_world_create(1);
          gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
          (void)gshmemx_set_attr_thread_args(world, 0, &attr);
          if (gshmemx_init_attr(GSHMEMX_INIT_THREAD_PES, &attr) == 0) gshmem_finalize();
          gshmemx_thread_world_destroy(world);
        })
            .join();
        tell("still");
        if (gshmemx_bind_thread(mine) == 0) tell("bound");
        if (gshmemx_bind_thread(nullptr) == 0) tell("free");
      }).join();
    });
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  for (const char* line : {"at first 0\n", "still 0\n", "bound 1\n", "free 0\n"})
    CHECK(contains(outcome.output, line));
  CHECK(times(outcome.output, "gshmem[1] ERROR: gshmem_ctx_create: ") == 1);
  CHECK(times(outcome.output, "gshmem[-] ERROR: gshmem_ctx_create: ") == 3);
}

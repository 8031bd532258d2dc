// A rank forks a child without exec: the child has none of its connections, and does not affect the
// job.
#include "bootstrap/uid/root.h"
#include "host/base/net/interfaces.h"
#include "tests/bootstrap/run_ranks.h"
#include "tests/bootstrap/uid_fixture.h"
#include "tests/lifeline.h"
#include "tests/sanitizers/sanitizers.h"

#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace gshmem;
using namespace gshmem::test;

TEST_CASE("uid_killed_rank_is_named_though_its_child_lives", "[uid]") {
  const int victim = GENERATE(0, 2);  // 0 runs the root service
  const Lifeline lifeline;
  IdChannel channel, ready;
  const auto body = [&](int rank) {
    const auto boot = channel.join(rank, 3, uid_config());
    if (rank != victim) ready.signal();
    if (rank == victim) {
      ready.await(2);
      lifeline.fork_holder();
      (void)raise(SIGKILL);
    }
    expect_error(GSHMEMX_ERROR_PEER_FAILED, "rank " + std::to_string(victim) + " died",
                 [&] { boot->barrier(); });
  };
  CHECK(run_processes(3, body, {victim}) == "");
}

TEST_CASE("uid_no_port_of_an_ended_process_is_open_though_its_child_lives", "[uid]") {
  const Lifeline lifeline;
  int ends[2];
  check_errno(pipe(ends), "pipe");
  CHECK(run_processes(1, [&](int) {
          gshmemx_uniqueid made;
          bootstrap::make_uniqueid(&made, uid_config());
          check_errno(write(ends[1], &made, sizeof made), "write");
          lifeline.fork_holder();
        }) == "");
  gshmemx_uniqueid id;
  REQUIRE(read(ends[0], &id, sizeof id) == sizeof id);
  expect_error(GSHMEMX_ERROR_PEER_FAILED, "no root service",
               [&] { (void)bootstrap::create_uid(id, 0, 1, uid_config()); });
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("uid_child_that_exits_does_not_affect_the_job", "[uid]") {
  IdChannel channel;
  CHECK(run_processes(3, [&](int rank) {
          auto boot = channel.join(rank, 3, uid_config());
          boot->barrier();
          if (rank != 1) {
            const pid_t child = fork();
            if (child == 0) {
              no_leak_check = true;
              boot.reset();
              std::exit(0);  // runs the destructors of rank 0's root service
            }
            int status = -1;
            expect(waitpid(child, &status, 0) == child && status == 0, "the child ends well");
          }
          boot->barrier();
          allgather_moves_every_byte(*boot, bootstrap::kMaxBytes);
        }) == "");
}

TEST_CASE("uid_child_may_look_for_root_services_in_any_state_of_its_parents_threads", "[uid]") {
  if (kUnderTsan) return void(std::puts("skipped: ThreadSanitizer lets no such child do anything"));
  const auto look = [] { (void)bootstrap::RootRegistry::get().serves({}); };
  std::atomic<bool> over{false};
  std::thread looks([&] {
    while (!over) look();
  });
  int status = 0;
  for (int i = 0; i < 50 && status == 0; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      ::alarm(20);  // ends a wait that does not end
      look();
      ::_exit(0);
    }
    if (waitpid(child, &status, 0) != child) status = -1;
  }
  over = true;
  looks.join();
  CHECK(status == 0);
}

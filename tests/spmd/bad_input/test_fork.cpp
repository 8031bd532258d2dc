// Children that a PE forks without exec (Python's multiprocessing, data loaders): the death of the
// PE is detected although its child lives, and calls of the child do not affect the job.
#include "tests/lifeline.h"
#include "tests/sanitizers/sanitizers.h"
#include "tests/spmd/bad_input/children.h"

#include <catch2/catch.hpp>

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>

using namespace gshmem;
using namespace gshmem::spmd;
using gshmem::test::Lifeline;

namespace {

constexpr char kNoThreads[] = "ThreadSanitizer lets no child of a process with threads start one";

/// Forks; the child runs `body`, and then ends normally, or by _exit.
enum class End { kExit, kAtOnce };
template <class Body>
pid_t fork_child(End end, const Body& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  gshmem::test::no_leak_check = true;
  body();
  std::fflush(nullptr);
  if (end == End::kAtOnce) ::_exit(0);
  std::exit(0);
}

/// Returns how a child of this process ended: its exit code, or 128 + signal.
int end_of(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Do the threads of a block in CPU mode meet?
bool launches() {
  std::atomic<int> ran{0};
  launch({.blocks = 2, .threads = 4}, [&](const LaunchContext& ctx) {
    ++ran;
    ctx.block().sync();
  });
  return ran == 8;
}

/// Runs two PEs and `in_child` in a child of PE 0, after which both continue: data, barriers, a
/// finalize that waits for PE 0. Returns their output. The child must end with `child_code`.
std::string job_goes_on(int child_code, const std::function<void(int* word)>& in_child) {
  const auto outcomes = in_children(2, quick({{"GSHMEM_FAULT", "abort"}}), [&](int rank) {
    // It belongs to a destructor that the child inherits from its parent, and runs at exit.
    static std::unique_ptr<Runtime> runtime;
    runtime = std::make_unique<Runtime>();
    auto* word = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
    if (!launches()) std::puts("other data");
    gshmem_barrier_all();
    if (rank == 0) {
      const int code = end_of(fork_child(End::kExit, [&] { in_child(word); }));
      if (code != child_code) std::printf("the child ended with %d\n", code);
      gshmem_int_p(word, 5, 1);
    }
    gshmem_barrier_all();
    if (rank == 1 && *word != 5) std::puts("PE 1 has other data");
    if (rank == 0) usleep(200'000);  // still busy when PE 1 is in finalize
    if (gshmemx_last_fault(nullptr) != GSHMEMX_SUCCESS) print_fault();
    gshmem_free(word);
    runtime.reset();
    std::puts("finalized");
  });
  std::string said;
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.output);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.output, "finalized"));
    CHECK_FALSE(contains(outcome.output, "WARN"));
    CHECK_FALSE(contains(outcome.output, "other data"));
    CHECK_FALSE(contains(outcome.output, "the child ended"));
    CHECK_FALSE(contains(outcome.output, "fault"));
    said += outcome.output;
  }
  return said;
}

/// Runs a job of this process alone.
bool lives_alone(bool on_cpu = false) {
  ::setenv("GSHMEM_BOOTSTRAP", "single", 1);
  gshmem_init();
  auto* word = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
  if (!word || gshmem_n_pes() != 1) return false;
  gshmem_int_p(word, 7, 0);
  gshmem_barrier_all();
  const bool good = *word == 7 && (!on_cpu || launches());
  gshmem_free(word);
  gshmem_finalize();
  return good && gshmemx_pe_handle() == nullptr;
}

}  // namespace

TEST_CASE("dead_pe_is_detected_though_its_child_lives") {
  // PE 0 has the root service, the others have a connection to it, and all have sockets to each
  // other.
  for (const int victim : {0, 1, 2}) {
    for (const bool grandchild : {false, true}) {
      const Lifeline lifeline;
      const auto outcomes = in_children(3, quick(), [&](int rank) {
        {
          const Runtime runtime;
          auto* word = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
          gshmem_barrier_all();
          if (rank == victim) {
            (void)fork_child(End::kAtOnce, [&] {
              if (grandchild) lifeline.fork_holder();
              lifeline.hold();
            });
            (void)raise(SIGKILL);
          }
          gshmem_int_wait_until(word, GSHMEM_CMP_EQ, 1);
          print_fault();
        }
        std::puts("finalized");
      });
      for (int rank = 0; rank < 3; ++rank) {
        const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
        INFO("victim " << victim << ", PE " << rank << ": " << outcome.output);
        CHECK(outcome.code == (rank == victim ? 128 + SIGKILL : 0));
        if (rank == victim) continue;
        const std::string died = std::to_string(victim) + " PE " + std::to_string(victim) + " died";
        CHECK(contains(outcome.output, "fault 12 " + died));
        CHECK(contains(outcome.output, "finalized"));
      }
    }
  }
}

TEST_CASE("child_of_a_dead_pe_that_is_a_thread_does_not_keep_its_job") {
  // The forking thread is PE 1 of its process; the child also inherits the other's sockets.
  const Lifeline lifeline;
  const Outcome outcome = in_child(quick(), [&] {
    std::atomic<int> forked{0};
    run_threads(2, [&](const Runtime& runtime) {
      if (runtime.my_pe() == 1) {
        (void)fork_child(End::kAtOnce, [&] {
          if (gshmemx_pe_handle() != nullptr) std::puts("the child has a PE");
          gshmem_finalize();
          lifeline.hold();
        });
        forked = 1;
      }
      gshmem_barrier_all();
      std::printf("PE %d is there\n", runtime.my_pe());
    });
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "PE 0 is there"));
  CHECK(contains(outcome.output, "PE 1 is there"));
  CHECK_FALSE(contains(outcome.output, "the child has"));
}

TEST_CASE("child_that_exits_with_its_parents_destructors_does_not_affect_the_job") {
  const std::string said = job_goes_on(0, [](int*) {});
  CHECK_FALSE(contains(said, "forked"));
}

TEST_CASE("child_that_finalizes_does_not_affect_the_job") {
  const std::string said = job_goes_on(0, [](int*) {
    gshmem_finalize();
    if (!kUnderTsan) std::thread(gshmem_finalize).join();
  });
  CHECK_FALSE(contains(said, "forked"));
}

TEST_CASE("child_that_ends_its_job_ends_itself") {
  if (kUnderTsan) skip(kNoThreads);
  (void)job_goes_on(9, [](int*) { gshmem_global_exit(9); });
}

TEST_CASE("memory_calls_of_a_child_are_errors_that_name_its_parent") {
  const std::string said = job_goes_on(0, [](int* word) {
    if (gshmem_malloc(64) != nullptr) std::puts("other data");
    gshmem_free(word);
    gshmem_ctx_t context = 1;
    std::printf("status %d\n", gshmem_ctx_create(0, &context));
    int comm = 0;  // nothing reads it
    gshmemx_init_attr_t attr = GSHMEMX_INIT_ATTR_INITIALIZER;
    (void)gshmemx_set_attr_mpi_comm_args(&comm, &attr);
    std::printf("init by MPI %d\n", gshmemx_init_attr(GSHMEMX_INIT_WITH_MPI_COMM, &attr));
    std::printf("init status %d, handle %p\n", gshmemx_init_status(), gshmemx_pe_handle());
  });
  CHECK(contains(said, "gshmem_malloc: this process was forked from PE 0"));
  CHECK(contains(said, "gshmem_ctx_create: this process was forked from PE 0"));
  CHECK(contains(said, "status 8\n"));
  CHECK(contains(said, "init by MPI 3\n"));
  CHECK(contains(said, "forked from PE 0: MPI works in the process that initialized it"));
  CHECK(contains(said, "init status 0, handle (nil)\n"));
}

TEST_CASE("operations_of_a_child_end_it_with_the_name_of_its_parent") {
  const std::map<std::string, void (*)(int*)> calls{
      {"gshmem_putmem", [](int* word) { gshmem_putmem(word, "1234", 4, 1); }},
      {"gshmem_barrier_all", [](int*) { gshmem_barrier_all(); }},
      {"gshmem_int_atomic_inc", [](int* word) { gshmem_int_atomic_inc(word, 1); }},
      {"gshmem_my_pe", [](int*) { (void)gshmem_my_pe(); }}};
  for (const auto& [name, call] : calls) {
    const std::string said = job_goes_on(128 + SIGABRT, call);
    INFO(said);
    CHECK(contains(said, name + ": this process was forked from PE 0"));
  }
}

TEST_CASE("context_of_the_parent_reaches_nothing_in_a_child") {
  for (const std::string policy : {"abort", "report"}) {
    const std::size_t holder = policy == "abort" ? 0 : 1;
    const auto outcomes = in_children(2, quick({{"GSHMEM_FAULT", policy}}), [&](int rank) {
      const Runtime runtime;
      auto* word = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
      const Context pe = context();
      gshmem_ctx_t handle = GSHMEM_CTX_INVALID;
      (void)gshmem_ctx_create(0, &handle);
      gshmem_barrier_all();
      if (rank == static_cast<int>(holder)) {
        const auto ends = [&](const char* what, const std::function<void()>& body) {
          const pid_t child = fork_child(End::kAtOnce, [&] {
            ::alarm(30);  // ends a wait that nothing else ends
            body();
          });
          std::printf("%s %d\n", what, end_of(child));
        };
        ends("p", [&] { pe.p(word, 6, 1 - rank); });
        ends("barrier", [&] { pe.barrier_all(Thread{}); });
        ends("quiet", [&] { pe.quiet(); });
        ends("handle", [&] { pe.on(handle).quiet(); });
        ends("wait", [&] { pe.wait_until(word, Cmp::kEq, 1); });
        ends("names", [&] { std::printf("PE %d of %d\n", pe.my_pe(), pe.n_pes()); });
      }
      for (int i = 0; i < 3; ++i) gshmem_barrier_all();
      std::printf("word %d\n", *word);
      print_fault();
    });
    for (const Outcome& outcome : outcomes) {
      INFO(outcome.output);
      CHECK(outcome.code == 0);
      CHECK(contains(outcome.output, "word 0\n"));
      CHECK(contains(outcome.output, "fault 0 "));
      CHECK(contains(outcome.output,
                     "a context of PE 0 is used in a process that was forked from it") ==
            (&outcome == &outcomes[0] && policy == "abort"));
    }
    const std::string& said = outcomes[holder].output;
    INFO(said);
    const int fault = policy == "abort" ? 128 + SIGABRT : 0;
    for (const char* what : {"p", "wait", "handle"})
      CHECK(contains(said, what + (" " + std::to_string(fault)) + "\n"));
    for (const char* what : {"barrier", "quiet", "names"})
      CHECK(contains(said, what + std::string(" 0\n")));
    CHECK(contains(said, "PE " + std::to_string(holder) + " of 0\n"));
  }
}

TEST_CASE("child_that_a_kernel_forks_ends_when_it_returns") {
  if (kUnderTsan) skip(kNoThreads);
  const Outcome outcome = in_child(quick(), [] {
    const Runtime runtime;
    pid_t child = 0;
    launch({.blocks = 1, .threads = 1}, [&](const LaunchContext&) {
      child = ::fork();
      gshmem::test::no_leak_check = gshmem::test::no_leak_check || child == 0;
    });
    std::printf("the child ended with %d\n", end_of(child));
  });
  INFO(outcome.output);
  CHECK(outcome.code == 0);
  CHECK(contains(outcome.output, "the child ended with 0\n"));
}

TEST_CASE("child_may_be_a_pe_of_another_job") {
  if (kUnderTsan) skip(kNoThreads);
  (void)job_goes_on(0, [](int*) {
    for (int round = 0; round < 2; ++round) {
      if (!lives_alone(true)) std::puts("other data");
    }
    // A GPU is refused to the child only if its parent has one.
    if (::access("/dev/nvidiactl", F_OK) != 0) {
      setenv("GSHMEM_DEVICE", "auto", 1);
      if (!lives_alone()) std::puts("other data");
    }
    // The child forks a child of its own, after it has left its job and while it is in one.
    if (end_of(fork_child(End::kExit, [] {
          if (!lives_alone()) std::puts("other data");
        })) != 0)
      std::puts("other data");
    gshmem_init();
    if (end_of(fork_child(End::kExit, [] { gshmem_finalize(); })) != 0) std::puts("other data");
    gshmem_barrier_all();
    gshmem_finalize();
  });
}

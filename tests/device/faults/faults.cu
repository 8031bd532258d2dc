// Faults of kernels: a dead PE during a barrier, a wait that never ends, bad arguments (this unit
// is compiled with GSHMEM_DEVICE_CHECKS=1). Each scenario runs in processes of its own, one per PE,
// forked before anything touches CUDA. Usage: faults one_pe|dead_pe. Exit 0, 1 with what went
// wrong, 77 without enough GPUs.
#include <gshmem/gshmem.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

__global__ void barrier() { gshmemx_barrier_all_block(); }
__global__ void wait_for_ever(int* word) { gshmem_int_wait_until(word, GSHMEM_CMP_EQ, 1); }
__global__ void put_to(int* word, int pe) { gshmem_int_p(word, 1, pe); }
__global__ void put_outside(int* word) { gshmem_int_p(word, 1, 0); }

struct Outcome {
  int status;
  std::string output;
};

/// Runs `body(rank)` in `n` processes that find each other at a port of this run's own.
std::vector<Outcome> run_pes(int n, const char* policy, const char* timeout,
                             const std::function<int(int)>& body) {
  static int port = 20000 + getpid() % 20000;
  ++port;
  std::fflush(nullptr);
  std::vector<pid_t> pids;
  std::vector<int> pipes;
  for (int rank = 0; rank < n; ++rank) {
    int ends[2];
    if (pipe(ends) != 0) std::exit(1);
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(ends[1], 1);
      dup2(ends[1], 2);
      close(ends[0]);
      close(ends[1]);
      setenv("GSHMEM_BOOTSTRAP", n > 1 ? "uid" : "single", 1);
      setenv("GSHMEM_UID_ADDRESS", ("127.0.0.1:" + std::to_string(port)).c_str(), 1);
      setenv("GSHMEM_UID_RANK", std::to_string(rank).c_str(), 1);
      setenv("GSHMEM_UID_SIZE", std::to_string(n).c_str(), 1);
      setenv("GSHMEM_FAULT", policy, 1);
      setenv("GSHMEM_TIMEOUT", timeout, 1);
      setenv("GSHMEM_BOOTSTRAP_TIMEOUT", "30", 1);
      setenv("GSHMEM_DEVICE", "cuda", 1);
      alarm(100);  // a hang is a failure, not a hang of the suite
      const int status = body(rank);
      std::fflush(nullptr);
      _exit(status);
    }
    close(ends[1]);
    pids.push_back(pid);
    pipes.push_back(ends[0]);
  }
  std::vector<Outcome> outcomes;
  for (int rank = 0; rank < n; ++rank) {
    Outcome outcome{};
    char buffer[4096];
    for (ssize_t got; (got = read(pipes[rank], buffer, sizeof(buffer))) > 0;) {
      outcome.output.append(buffer, static_cast<std::size_t>(got));
    }
    close(pipes[rank]);
    waitpid(pids[rank], &outcome.status, 0);
    outcomes.push_back(outcome);
  }
  return outcomes;
}

int failures = 0;

void expect(const char* scenario, const Outcome& outcome, int exit_status, const char* text) {
  const bool exited = WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == exit_status;
  if (exited && outcome.output.find(text) != std::string::npos) {
    std::printf("ok %s\n", scenario);
    return;
  }
  ++failures;
  std::printf("FAILED %s: wait status 0x%x, expected exit %d and \"%s\" in:\n%s\n", scenario,
              outcome.status, exit_status, text, outcome.output.c_str());
}

/// Prints the fault on record; finalize must return.
int report_and_leave() {
  gshmemx_fault_t fault;
  gshmemx_last_fault(&fault);
  std::printf("fault %d of PE %d: %s\n", fault.code, fault.pe, fault.message);
  gshmem_finalize();
  std::puts("finalized");
  return fault.code;
}

int dying_job(int rank) {
  gshmem_init();
  barrier<<<1, 64>>>();  // also loads the kernel
  cudaDeviceSynchronize();
  if (rank == 1) (void)raise(SIGKILL);
  barrier<<<1, 64>>>();
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("kernel: %s\n", cudaGetErrorName(error));
  return report_and_leave();
}

template <class Launch>
int faulting_job(const Launch& launch) {
  gshmem_init();
  int* word = static_cast<int*>(gshmem_calloc(1, sizeof(int)));
  launch(word);
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("kernel: %s\n", cudaGetErrorName(error));
  return report_and_leave();
}

void test_one_pe() {
  Outcome one = run_pes(1, "report", "1", [](int) {
    return faulting_job([](int* word) { wait_for_ever<<<1, 1>>>(word); });
  })[0];
  expect("wait that never ends is a timeout", one, GSHMEMX_ERROR_TIMEOUT,
         "gshmem_int_wait_until: waited");
  one = run_pes(1, "report", "60",
                [](int) { return faulting_job([](int* word) { put_to<<<1, 1>>>(word, 7); }); })[0];
  expect("PE out of range is named", one, GSHMEMX_ERROR_INVALID_VALUE,
         "gshmem_int_p: argument pe = 7 is out of range [0, 1)");
  one = run_pes(1, "abort", "60",
                [](int) { return faulting_job([](int* word) { put_to<<<1, 1>>>(word, -1); }); })[0];
  expect("abort traps and leaves the record", one, GSHMEMX_ERROR_INVALID_VALUE,
         "gshmem_int_p: argument pe = -1 is out of range [0, 1)");
  one = run_pes(1, "report", "60", [](int) {
    return faulting_job([](int*) {
      int* outside = nullptr;
      cudaMalloc(&outside, sizeof(int));
      put_outside<<<1, 1>>>(outside);
    });
  })[0];
  expect("address outside the heap is named", one, GSHMEMX_ERROR_INVALID_VALUE,
         "gshmem_int_p: argument dest = 0x");
}

void test_dead_pe() {
  expect("dead PE ends a barrier under report", run_pes(2, "report", "60", dying_job)[0],
         GSHMEMX_ERROR_PEER_FAILED, "PE 1 died");
  expect("dead PE ends the job under abort", run_pes(2, "abort", "60", dying_job)[0], 1,
         "PE 1 died");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc == 2 ? argv[1] : "";
  if (which != "one_pe" && which != "dead_pe") {
    std::puts("usage: faults one_pe|dead_pe");
    return 2;
  }
  const Outcome gpus = run_pes(1, "report", "60", [](int) {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
  })[0];
  const int count = WIFEXITED(gpus.status) ? WEXITSTATUS(gpus.status) : 0;
  const int need = which == "dead_pe" ? 2 : 1;
  if (count < need) {
    std::printf("skipped: needs %d GPUs, there are %d\n", need, count);
    return 77;
  }
  if (which == "dead_pe") {
    test_dead_pe();
  } else {
    test_one_pe();
  }
  return failures == 0 ? 0 : 1;
}

// Jobs that end with errors, for tests of kernels: each in processes of its own, one per PE, forked
// before any of them uses CUDA.
#pragma once

#include <gshmem/gshmem.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

struct Outcome {
  int status;
  std::string output;
};

/// Runs `body(rank)` in `n` processes, which use a port of this run.
inline std::vector<Outcome> run_pes(int n, const char* policy, const char* timeout,
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

inline int failures = 0;

inline void expect(const char* scenario, const Outcome& outcome, int exit_status,
                   const char* text) {
  const bool exited = WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == exit_status;
  const std::string ending = "(ending the job";
  const bool said_twice = outcome.output.find(ending) != outcome.output.rfind(ending);
  if (exited && outcome.output.find(text) != std::string::npos && !said_twice) {
    std::printf("ok %s\n", scenario);
    return;
  }
  ++failures;
  std::printf("FAILED %s: wait status 0x%x, expected exit %d and \"%s\", each once, in:\n%s\n",
              scenario, outcome.status, exit_status, text, outcome.output.c_str());
}

/// Prints the recorded fault; finalize must return.
inline int report_and_leave() {
  gshmemx_fault_t fault;
  gshmemx_last_fault(&fault);
  std::printf("fault %d of PE %d: %s\n", fault.code, fault.pe, fault.message);
  gshmem_finalize();
  std::puts("finalized");
  return fault.code;
}

inline int count_gpus() {
  const Outcome gpus = run_pes(1, "report", "60", [](int) {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
  })[0];
  return WIFEXITED(gpus.status) ? WEXITSTATUS(gpus.status) : 0;
}

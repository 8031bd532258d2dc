#include "tests/patience.h"
#include "tests/spmd/bad_input/children.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <csignal>

namespace gshmem::spmd {
namespace {

constexpr int kSeconds = 60 * gshmem::test::kPatience;  // far above what any case takes

struct Child {
  pid_t pid = -1;
  int output = -1;
};

Child start(const Environment& environment, const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  std::fflush(nullptr);
  Child child{fork(), ends[0]};
  if (child.pid != 0) {
    close(ends[1]);
    return child;
  }
  close(ends[0]);
  dup2(ends[1], STDOUT_FILENO);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  alarm(kSeconds);
  std::signal(SIGABRT, SIG_DFL);  // Catch2's handlers are for the parent only
  std::signal(SIGTERM, SIG_DFL);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  int code = 0;
  try {
    body();
  } catch (const std::exception& error) {
    std::printf("threw: %s\n", error.what());
    code = 3;
  }
  std::fflush(nullptr);
  std::exit(code);  // not _exit: objects that the library keeps until then are destroyed, too
}

Outcome finish(const Child& child) {
  Outcome outcome;
  char buffer[4096];
  for (;;) {
    const ssize_t n = read(child.output, buffer, sizeof(buffer));
    if (n <= 0) break;
    outcome.output.append(buffer, static_cast<std::size_t>(n));
  }
  close(child.output);
  int status = 0;
  if (waitpid(child.pid, &status, 0) != child.pid) return outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace

std::string free_address() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(fd);
  if (!bound) throw std::runtime_error("no free port");
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

Environment quick(const Environment& changes) {
  Environment all{{"GSHMEM_DEVICE", "cpu"},
                  {"GSHMEM_SYMMETRIC_SIZE", "1M"},
                  {"GSHMEM_TIMEOUT", std::to_string(30 * gshmem::test::kPatience)},
                  {"GSHMEM_BOOTSTRAP_TIMEOUT", std::to_string(20 * gshmem::test::kPatience)},
                  {"GSHMEM_FAULT", "report"}};
  for (const auto& [name, value] : changes) all[name] = value;
  return all;
}

Outcome in_child(const Environment& environment, const std::function<void()>& body) {
  return finish(start(environment, body));
}

std::vector<Outcome> in_children(int n, const Environment& environment,
                                 const std::function<void(int)>& body) {
  Environment all = environment;
  all["GSHMEM_BOOTSTRAP"] = "uid";
  all["GSHMEM_UID_ADDRESS"] = free_address();
  all["GSHMEM_UID_SIZE"] = std::to_string(n);
  std::vector<Child> children;
  for (int rank = 0; rank < n; ++rank) {
    all["GSHMEM_UID_RANK"] = std::to_string(rank);
    children.push_back(start(all, [&] { body(rank); }));
  }
  std::vector<Outcome> outcomes;
  for (const Child& child : children) outcomes.push_back(finish(child));
  return outcomes;
}

std::vector<gshmemx_fault_t> faults_after(int n, const Environment& environment,
                                          const std::function<void(const Runtime&)>& misuse) {
  const std::size_t bytes = sizeof(gshmemx_fault_t) * static_cast<std::size_t>(n);
  void* shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* faults = static_cast<gshmemx_fault_t*>(shared);
  const Outcome outcome = in_child(environment, [&] {
    std::barrier all_called(n);
    run_threads(n, [&](const Runtime& runtime) {
      misuse(runtime);
      gshmemx_last_fault(&faults[runtime.my_pe()]);
      all_called.arrive_and_wait();
    });
  });
  std::vector<gshmemx_fault_t> result(faults, faults + n);
  munmap(shared, bytes);
  if (outcome.code != 0) {
    throw std::runtime_error("the child ended with " + std::to_string(outcome.code) + ": " +
                             outcome.output);
  }
  return result;
}

void print_fault() {
  gshmemx_fault_t fault;
  gshmemx_last_fault(&fault);
  std::printf("fault %d %d %s\n", fault.code, fault.pe, fault.message);
}

void await_line(const std::string& part, const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  const int log = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  body();
  std::string said;
  for (char c = 0; !(c == '\n' && contains(said, part)) && read(ends[0], &c, 1) == 1;) said += c;
  dup2(log, STDERR_FILENO);
  close(log);
  close(ends[0]);
  std::fputs(said.c_str(), stdout);
  std::fflush(stdout);
}

void await_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  kill(getpid(), SIGUSR1);
  int number = 0;
  sigwait(&set, &number);
  std::puts("signal taken");
}

void skip(const std::string& why) {
  std::printf("skipped: %s\n", why.c_str());
  std::fflush(stdout);
  std::_Exit(77);
}

}  // namespace gshmem::spmd

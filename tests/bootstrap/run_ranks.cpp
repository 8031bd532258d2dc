#include "tests/bootstrap/run_ranks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

namespace gshmem::test {
namespace {

/// Returns the text of what `body(rank)` throws, or an empty text.
std::string run_one(const std::function<void(int)>& body, int rank) {
  try {
    body(rank);
    return {};
  } catch (const std::exception& error) {
    return "rank " + std::to_string(rank) + ": " + error.what() + "\n";
  }
}

[[noreturn]] void run_child(const std::function<void(int)>& body, int rank) {
  const std::string problem = run_one(body, rank);
  std::fputs(problem.c_str(), stderr);
  std::exit(problem.empty() ? 0 : 1);  // exit, not _exit: static destructors are part of the test
}

}  // namespace

std::string run_threads(int size, const std::function<void(int)>& body) {
  std::vector<std::string> problems(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] { problems[static_cast<std::size_t>(r)] = run_one(body, r); });
  }
  for (auto& thread : threads) thread.join();
  std::string all;
  for (const auto& problem : problems) all += problem;
  return all;
}

std::string run_processes(int size, const std::function<void(int)>& body,
                          const std::vector<int>& may_die) {
  std::vector<pid_t> children;
  std::fflush(nullptr);  // otherwise each child would print what the parent has buffered
  for (int r = 0; r < size; ++r) {
    const pid_t child = fork();
    if (child == 0) run_child(body, r);
    children.push_back(child);
  }
  std::string all;
  for (int r = 0; r < size; ++r) {
    int status = 0;
    const pid_t child = children[static_cast<std::size_t>(r)];
    if (child < 0 || waitpid(child, &status, 0) != child) {
      all += "rank " + std::to_string(r) + ": fork or waitpid failed\n";
    } else if (WIFSIGNALED(status)) {
      if (std::find(may_die.begin(), may_die.end(), r) == may_die.end())
        all += "rank " + std::to_string(r) + ": signal " + std::to_string(WTERMSIG(status)) + "\n";
    } else if (WEXITSTATUS(status) != 0) {
      all += "rank " + std::to_string(r) + ": exit " + std::to_string(WEXITSTATUS(status)) + "\n";
    }
  }
  return all;
}

}  // namespace gshmem::test

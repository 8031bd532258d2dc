// Misuse ends processes, so every case of tests/spmd/bad_input runs in children: one that may have
// several PEs as threads, or one per PE. A child that hangs is killed and counts as failed.
#pragma once

#include <gshmem/gshmem.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace gshmem::spmd {

/// The code of most misuse.
inline constexpr int kInvalid = GSHMEMX_ERROR_INVALID_VALUE;

using Environment = std::map<std::string, std::string>;

struct Outcome {
  int code = -1;       ///< exit code, or 128 + signal
  std::string output;  ///< stdout and stderr
};

/// Returns the environment of every case unless it sets another: CPU mode, small heaps, short
/// waits.
[[nodiscard]] Environment quick(const Environment& changes = {});

/// Runs `body` in a child; 0 when it returns, 3 with the text when it throws.
[[nodiscard]] Outcome in_child(const Environment& environment, const std::function<void()>& body);

/// Runs `body(rank)` in `n` children that can form a job (GSHMEM_BOOTSTRAP=uid).
[[nodiscard]] std::vector<Outcome> in_children(int n, const Environment& environment,
                                               const std::function<void(int rank)>& body);

/// Returns an address of the loopback interface that was free a moment ago, for GSHMEM_UID_ADDRESS.
[[nodiscard]] std::string free_address();

/// Returns the last fault of every PE of `n` (threads of one child, GSHMEM_FAULT=report) after
/// `misuse`; all PEs have made their call before any leaves.
[[nodiscard]] std::vector<gshmemx_fault_t> faults_after(
    int n, const Environment& environment, const std::function<void(const Runtime&)>& misuse);

/// Prints the code and message of gshmemx_last_fault as a line "fault CODE PE MESSAGE" on stdout.
void print_fault();

/// Runs `body` and returns when the log has a line with `part`; the whole log is printed on stdout.
void await_line(const std::string& part, const std::function<void()>& body);

/// Blocks SIGUSR1 on this thread, sends it to the process, waits for it, and prints that on stdout.
/// It ends the process if another thread receives it.
void await_signal();

[[nodiscard]] inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

[[nodiscard]] inline std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

/// Ends the test case as skipped.
[[noreturn]] void skip(const std::string& why);

}  // namespace gshmem::spmd

// Runs a body once per rank, as threads or as forked processes of the test, and returns the errors:
// one line per rank that failed, empty if none did. Included by the Catch2 tests.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace gshmem::test {

/// Runs `body(rank)` on `size` threads.
[[nodiscard]] std::string run_threads(int size, const std::function<void(int)>& body);

/// Runs `body(rank)` in `size` child processes. A child killed by a signal counts as failed
/// unless its rank is in `may_die`.
[[nodiscard]] std::string run_processes(int size, const std::function<void(int)>& body,
                                        const std::vector<int>& may_die = {});

}  // namespace gshmem::test

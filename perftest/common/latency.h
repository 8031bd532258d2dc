// The common code of the latency programs of messages: scopes and sizes, with one group per PE.
#pragma once

#include "perftest/common/moves.h"

#include <functional>

namespace perftest {

/// Collective: one message of `bytes` bytes per iteration by one group, checked.
using Send = std::function<Measurement(const std::string& scope, const gshmem::LaunchShape& shape,
                                       std::size_t bytes)>;

/// Runs `send` for all scopes and sizes and adds a row for each. A message crosses the path
/// `crossings` times, one after the other.
void run_latency(Bench& bench, std::size_t crossings, const Send& send);

[[nodiscard]] Program latency_program(const char* name, const char* summary, void (*run)(Bench&));

/// Makes the program for Puts or Gets.
template <class Moves>
[[nodiscard]] Program latency_program(const char* name, const char* summary) {
  Program program = latency_program(name, summary, [](Bench& bench) {
    Exchange exchange(bench, bench.options().max_size);
    run_latency(bench, 1, [&](const auto& scope, const auto& shape, std::size_t bytes) {
      return measure_moves<MoveOneByOne, Moves>(bench, exchange, scope, shape, bytes);
    });
  });
  program.groups |= kSmem;
  return program;
}

}  // namespace perftest

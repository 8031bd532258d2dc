// The common code of put_bw and get_bw, which vary sizes and scopes, or the number of blocks.
#pragma once

#include "perftest/common/moves.h"

#include <functional>

namespace perftest {

/// Collective: transfers `bytes` bytes per iteration by the groups of `shape`, and checks them.
using Move = std::function<Measurement(const std::string& scope, const gshmem::LaunchShape& shape,
                                       std::size_t bytes)>;

/// Runs `move` as the options say and adds a row for each run.
void run_bandwidth(Bench& bench, const Move& move);

[[nodiscard]] Program bandwidth_program(const char* name, const char* summary, void (*run)(Bench&));

/// Makes the program for Puts or Gets.
template <class Moves>
[[nodiscard]] Program bandwidth_program(const char* name, const char* summary) {
  return bandwidth_program(name, summary, [](Bench& bench) {
    Exchange exchange(bench, bench.options().max_size);
    run_bandwidth(bench, [&](const auto& scope, const auto& shape, std::size_t bytes) {
      return measure_moves<MoveStream, Moves>(bench, exchange, scope, shape, bytes);
    });
  });
}

}  // namespace perftest

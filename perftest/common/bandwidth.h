// Code that put_bw and get_bw share: sizes and scopes, or the number of blocks, as the varied
// thing.
#pragma once

#include "perftest/common/run.h"

namespace perftest {

/// Collective: moves `bytes` bytes per iteration by the groups of `shape`, checked.
using Move = FunctionRef<Measurement(const std::string& scope, const gshmem::LaunchShape& shape,
                                     std::size_t bytes)>;

/// Runs `move` as the options say and adds a row for each run.
void run_bandwidth(Bench& bench, const Move& move);

[[nodiscard]] Program bandwidth_program(const char* name, const char* summary, void (*run)(Bench&));

}  // namespace perftest

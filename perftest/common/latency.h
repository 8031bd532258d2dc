// Code that the latency programs of messages share: scopes and sizes, one group per PE.
#pragma once

#include "perftest/common/run.h"

namespace perftest {

/// Collective: one message of `bytes` bytes per iteration by one group, checked.
using Send = FunctionRef<Measurement(const std::string& scope, const gshmem::LaunchShape& shape,
                                     std::size_t bytes)>;

/// Runs `send` for all scopes and sizes and adds a row for each. A message crosses the path
/// `crossings` times, one after the other.
void run_latency(Bench& bench, std::size_t crossings, const Send& send);

[[nodiscard]] Program latency_program(const char* name, const char* summary, void (*run)(Bench&));

}  // namespace perftest

#include "perftest/common/latency.h"

namespace perftest {

void run_latency(Bench& bench, std::size_t crossings, const Send& send) {
  for (const std::string& scope : scopes_of(bench.options())) {
    const gshmem::LaunchShape shape = bench.shape_of(scope);
    for (const std::size_t bytes : sizes_of(bench.options(), 1)) {
      const Measurement measured = send(scope, shape, bytes);
      bench.add_row({.size = bytes, .scope = scope, .blocks = 1, .threads = shape.threads},
                    measured, Trip::kRound, crossings * bytes);
    }
  }
}

Program latency_program(const char* name, const char* summary, void (*run)(Bench&)) {
  return {.name = name,
          .summary = summary,
          .groups = kSizes | kScope | kPattern,
          .shows = Shows::kLatency,
          .gpu = {.min_size = 8, .max_size = 1 << 20, .threads_per_cta = 1024},
          .cpu = {.min_size = 8,
                  .max_size = 1 << 13,
                  .step = 4,
                  .repetitions = 3,
                  .threads_per_cta = 2},
          .run = run};
}

}  // namespace perftest

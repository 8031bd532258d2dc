#include "perftest/common/bandwidth.h"
#include <algorithm>

namespace perftest {
namespace {

Row measure_row(Bench& bench, const Move& move, const std::string& scope,
                const gshmem::LaunchShape& shape, std::size_t bytes) {
  const Measurement measured = move(scope, shape, bytes);
  Row row{.size = bytes,
          .scope = scope,
          .blocks = shape.blocks,
          .threads = shape.threads,
          .bytes = bytes};
  bench.add_row(row, measured, Trip::kStream, bytes);
  row.median_us = measured.median_us;
  return row;
}

/// Measures how many blocks are needed to saturate the path, at the largest size.
void sweep_ctas(Bench& bench, const Move& move, const std::string& scope) {
  gshmem::LaunchShape shape = bench.full_shape(scope);
  std::vector<Row> rows;
  double peak = 0;
  for (unsigned blocks = 1; blocks <= bench.options().ctas; ++blocks) {
    shape.blocks = blocks;
    rows.push_back(measure_row(bench, move, scope, shape, bench.options().max_size));
    peak = std::max(peak, rows.back().gigabytes_per_s());
  }
  for (const Row& row : rows) {
    if (row.gigabytes_per_s() < 0.95 * peak) continue;
    char text[100];
    std::snprintf(text, sizeof(text), "%u (%.1f of %.1f GB/s, size %zu, %s)", row.blocks,
                  row.gigabytes_per_s(), peak, row.size, scope.c_str());
    bench.add_summary("blocks_for_95_percent", text);
    return;
  }
}

}  // namespace

void run_bandwidth(Bench& bench, const Move& move) {
  for (const std::string& scope : scopes_of(bench.options())) {
    if (bench.options().sweep_ctas) {
      sweep_ctas(bench, move, scope);
      continue;
    }
    for (const std::size_t bytes : sizes_of(bench.options(), 1)) {
      measure_row(bench, move, scope, bench.full_shape(scope), bytes);
    }
  }
}

Program bandwidth_program(const char* name, const char* summary, void (*run)(Bench&)) {
  return {.name = name,
          .summary = summary,
          .groups = kSizes | kShape | kScope | kBandwidth | kPattern | kSweep | kSmem,
          .shows = Shows::kBandwidth,
          .gpu = {.min_size = 1 << 10,
                  .max_size = 64 << 20,
                  .warmup_iters = 3,
                  .ctas = 32,
                  .threads_per_cta = 1024,
                  .scope = "block"},
          .cpu = {.min_size = 1 << 10,
                  .max_size = 1 << 20,
                  .step = 4,
                  .warmup_iters = 3,
                  .repetitions = 3,
                  .ctas = 2,
                  .threads_per_cta = 1,
                  .scope = "block"},
          .run = run};
}

}  // namespace perftest

// The common code of p_bw and g_bw: sizes of elements that the threads of the launch transfer one
// by one, each in its own call.
#pragma once

#include "perftest/common/run.h"

#include <algorithm>

namespace perftest {

/// `count` elements, one in every `stride`.
struct ElementSet {
  std::size_t count, stride;
};

/// Collective: runs `move(shape, set, word)` for all sizes, with `word` the unsigned integer of the
/// element's size. Checks the destination against the data of PE `from` and adds a row for each.
template <class MoveElements>
void run_elements(Bench& bench, Exchange& exchange, int from, const MoveElements& move) {
  const Options& options = bench.options();
  const std::size_t width = find_type(options.datatype)->size;
  const gshmem::LaunchShape shape = bench.full_shape("thread");
  for (const std::size_t bytes : sizes_of(options, width)) {
    const std::size_t extent = bytes * options.stride;
    exchange.prepare(extent);
    Measurement measured;
    with_word(width, [&](auto word) {
      measured = move(shape, ElementSet{bytes / width, options.stride}, word);
    });
    exchange.check(extent, from, {width, options.stride});
    bench.add_row({.name = options.datatype,
                   .size = bytes,
                   .scope = "thread",
                   .blocks = shape.blocks,
                   .threads = shape.threads,
                   .bytes = bytes,
                   .operations = bytes / width},
                  measured, Trip::kStream, bytes);
  }
}

/// Returns the bytes that the largest message of run_elements spans.
inline std::size_t largest_extent(const Options& options) {
  constexpr std::size_t kWidest = 8;
  return (options.max_size + kWidest) * options.stride;
}

[[nodiscard]] inline Program element_program(const char* name, const char* summary, unsigned groups,
                                             void (*run)(Bench&)) {
  return {.name = name,
          .summary = summary,
          .groups = kSizes | kShape | kType | kStride | kBandwidth | kPattern | groups,
          .shows = Shows::kBandwidth,
          .gpu = {.min_size = 1 << 10,
                  .max_size = 16 << 20,
                  .warmup_iters = 3,
                  .ctas = 32,
                  .threads_per_cta = 1024,
                  .datatype = "uint64"},
          .cpu = {.min_size = 1 << 10,
                  .max_size = 64 << 10,
                  .step = 4,
                  .warmup_iters = 3,
                  .repetitions = 3,
                  .ctas = 2,
                  .threads_per_cta = 1,
                  .datatype = "uint64"},
          .run = run};
}

}  // namespace perftest

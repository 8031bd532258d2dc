// How long a job takes to start and to end: init, an allocation, a barrier of the hosts, finalize;
// each is the time of the slowest PE. The first init of a process loads the driver and creates the
// GPU's context, and later ones do not, so they are listed separately. With --pes an init includes
// the start of the threads.
#include "perftest/common/run.h"

#include <algorithm>
#include <array>

namespace perftest {
namespace {

constexpr std::size_t kAllocation = 16 << 20;
enum Step { kInit, kMalloc, kBarrier, kFinalize, kSteps };
/// The nanoseconds of each step between two finalizes.
using Life = std::array<double, kSteps>;

double now() { return static_cast<double>(gshmem::device::now_ns()); }

/// Executes the work of a PE between init and finalize. In kFinalize it stores the time at which
/// finalize begins; the caller replaces it by a duration.
void live(double started, Life& life) {
  using Memory = gshmem::SymmetricArray<std::byte>;
  const double up = now();
  life[kInit] = up - started;
  const Memory memory(kAllocation, Memory::Fill::kNone);
  constexpr int kBarriers = 100;
  const double before = now();
  life[kMalloc] = before - up;
  for (int i = 0; i < kBarriers; ++i) gshmem_barrier_all();
  const double end = now();
  life[kBarrier] = (end - before) / kBarriers;
  life[kFinalize] = end;
}

/// Collective: the slowest PE's times of `step`.
Measurement over_lives(Bench& bench, std::span<const Life> lives, Step step) {
  std::vector<double> us;
  for (const Life& life : lives) {
    const std::vector<double> all = bench.gather(life[step] * 1e-3);
    us.push_back(*std::max_element(all.begin(), all.end()));
  }
  std::sort(us.begin(), us.end());
  return {.min_us = us.front(),
          .median_us = us[us.size() / 2],
          .fastest_us = us.front(),
          .iters = static_cast<unsigned>(us.size()),
          .active_pes = static_cast<unsigned>(bench.n_pes())};
}

void report(Bench& bench, std::span<const Life> lives) {
  const auto row = [&](const char* name, std::size_t size, std::span<const Life> of, Step step) {
    bench.add_row({.name = name, .size = size, .scope = "host"}, over_lives(bench, of, step),
                  Trip::kStream, 0);
  };
  row("init_first", 0, lives.first(1), kInit);
  row("init_again", 0, lives.subspan(1), kInit);
  row("malloc", kAllocation, lives, kMalloc);
  row("barrier_host", 0, lives, kBarrier);
  row("finalize", 0, lives, kFinalize);
}

void run(const Program& program, const Options& options) {
  const unsigned count = std::max(2u, options.repetitions ? options.repetitions : 3);
  // It is indexed by the thread of this process.
  std::vector<std::vector<Life>> lives(std::max(1u, options.pes), std::vector<Life>(count));
  const auto mine = [&](int pe) -> std::vector<Life>& {
    return lives[options.pes ? static_cast<std::size_t>(pe) : 0];
  };
  for (unsigned i = 0; i < count; ++i) {
    const double started = now();
    for_each_pe(options, [&](gshmem::Runtime& pe) { live(started, mine(pe.my_pe())[i]); });
    const double ended = now();
    for (std::vector<Life>& of_pe : lives) of_pe[i][kFinalize] = ended - of_pe[i][kFinalize];
  }
  const auto show = [&](Bench& bench) { report(bench, mine(bench.my_pe())); };
  for_each_pe(options, [&](gshmem::Runtime& pe) { run_pe(program, show, options, pe); });
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  const Program program{.name = "init_time",
                        .summary = "time of init, malloc, barrier and finalize of a job",
                        .groups = 0,
                        .shows = Shows::kLatency,
                        .gpu = {},
                        .cpu = {},
                        .run = {}};
  return run_job(program, argc, argv, [&](const Options& options) { run(program, options); });
}

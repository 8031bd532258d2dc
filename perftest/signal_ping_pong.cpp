// Round trip of a signal without data, by one thread: signal, and signal_wait_until for exactly the
// value that must come next.
#include "perftest/common/run.h"
#include "perftest/common/timing.h"

namespace perftest {
namespace {

struct SignalPingPong {
  std::uint64_t* signal;
  int partner;
  bool starts;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    for (unsigned i = 0; i < span.count; ++i) {
      const std::uint64_t number = span.first + i + 1;
      if (starts) ctx.signal({signal, number}, partner);
      ctx.signal_wait_until(signal, gshmem::Cmp::kEq, number);
      if (!starts) ctx.signal({signal, number}, partner);
    }
  }
};

void run(Bench& bench) {
  const bool starts = bench.my_pe() < bench.n_pes() / 2;
  const int partner = starts ? bench.role().target : bench.role().source;
  const Part part = partner < 0 ? Part::kNone : starts ? Part::kTimed : Part::kSilent;
  gshmem::SymmetricArray<std::uint64_t> signal(1);
  const Measurement measured = measure(bench, bench.shape_of("thread"), part,
                                       SignalPingPong{signal.data(), partner, starts});
  std::uint64_t last = signal.to_vector(bench.my_pe())[0];
  if (bench.options().inject_corruption) ++last;
  bench.agree(partner < 0 || last == bench.iterations_taken()
                  ? ""
                  : "FAIL: wrong data: the signal ended at " + std::to_string(last) +
                        " instead of " + std::to_string(bench.iterations_taken()));
  bench.add_row({.size = sizeof(std::uint64_t), .scope = "thread"}, measured, Trip::kRound,
                2 * sizeof(std::uint64_t));
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program({.name = "signal_ping_pong",
                      .summary = "round trip of a signal",
                      .groups = 0,
                      .shows = Shows::kLatency,
                      .least_pes = 2,
                      .gpu = {},
                      .cpu = {.repetitions = 3},
                      .run = run},
                     argc, argv);
}

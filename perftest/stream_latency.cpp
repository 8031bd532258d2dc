// Time of a call on a stream: many of them in one stream, from the first call on the host to the
// end of the stream. The host's own part of a call is shorter.
#include "perftest/common/gpu.h"
#include "perftest/common/run.h"

#include <gshmem/launch.hpp>

#include <functional>

namespace perftest {
namespace {

/// Collective: `call` again and again, on the PEs that are active.
Measurement measure_calls(Bench& bench, gshmemx_stream_t stream, bool active,
                          const std::function<void()>& call) {
  return bench.repeat([&](std::uint64_t, unsigned warmup, unsigned iters) {
    bench.barrier();
    if (!active) return 0.0;
    for (unsigned i = 0; i < warmup; ++i) call();
    gshmemx_quiet_on_stream(stream);
    gshmem::synchronize(stream);
    const std::uint64_t start = gshmem::device::now_ns();
    for (unsigned i = 0; i < iters; ++i) call();
    gshmem::synchronize(stream);
    return static_cast<double>(gshmem::device::now_ns() - start);
  });
}

void run_transfers(Bench& bench, gshmemx_stream_t stream) {
  const Role role = bench.role();
  Exchange exchange(bench, bench.options().max_size);
  for (const bool gets : {false, true}) {
    for (const std::size_t bytes : sizes_of(bench.options(), 1)) {
      exchange.prepare(bytes);
      const Measurement measured = measure_calls(bench, stream, role.is_active(), [&] {
        if (gets) {
          gshmemx_getmem_on_stream(exchange.dest(), exchange.source(), bytes, role.target, stream);
        } else {
          gshmemx_putmem_on_stream(exchange.dest(), exchange.source(), bytes, role.target, stream);
        }
      });
      gshmemx_quiet_on_stream(stream);
      gshmem::synchronize(stream);
      exchange.check(bytes, gets ? role.target : role.source);
      bench.add_row({.name = gets ? "getmem" : "putmem", .size = bytes, .scope = "stream"},
                    measured, Trip::kStream, bytes);
    }
  }
}

/// The next PE's word has this PE's number when a barrier has passed.
std::string check_barriers(Bench& bench, gshmemx_stream_t stream,
                           const std::function<void()>& barrier) {
  constexpr std::uint64_t kVerified = 50;
  gshmem::SymmetricArray<std::uint64_t> mailbox(1);
  const int next = (bench.my_pe() + 1) % bench.n_pes();
  std::uint64_t wrong = bench.options().inject_corruption ? 1 : 0;
  for (std::uint64_t number = 1; number <= kVerified; ++number) {
    gshmemx_uint64_p_on_stream(mailbox.data(), number, next, stream);
    gshmemx_quiet_on_stream(stream);
    barrier();
    const std::uint64_t seen = gshmemx_uint64_g_on_stream(mailbox.data(), bench.my_pe(), stream);
    if (seen != number && seen != number + 1) ++wrong;
  }
  if (wrong == 0) return "";
  return "FAIL: left " + std::to_string(wrong) + " of " + std::to_string(kVerified) +
         " barriers before the PE before had come to it";
}

void run_barriers(Bench& bench, gshmemx_stream_t stream) {
  const std::pair<const char*, std::function<void()>> barriers[] = {
      {"barrier_all", [&] { gshmemx_barrier_all_on_stream(stream); }},
      {"sync_all", [&] { gshmemx_sync_all_on_stream(stream); }},
      {"team_sync", [&] { (void)gshmemx_team_sync_on_stream(GSHMEM_TEAM_WORLD, stream); }}};
  for (const auto& [name, call] : barriers) {
    bench.agree(check_barriers(bench, stream, call));
    const Measurement measured = measure_calls(bench, stream, true, call);
    bench.add_row({.name = name, .scope = "stream"}, measured, Trip::kOneWay, 0);
  }
}

void run(Bench& bench) {
  const Stream stream = gpu_stream(bench.on_gpu());
  run_transfers(bench, stream.get());
  run_barriers(bench, stream.get());
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  const Program program{.name = "stream_latency",
                        .summary = "time of calls on a stream, one after the other",
                        .groups = kSizes | kPattern,
                        .shows = Shows::kLatency,
                        .gpu = {.min_size = 8, .max_size = 4 << 20, .step = 4},
                        .cpu = {.min_size = 8, .max_size = 1 << 13, .step = 4, .repetitions = 3},
                        .run = run};
  return run_program(program, argc, argv);
}

// Time of a put that has arrived: put, then quiet, by one thread, warp or block.
#include "perftest/common/run.h"
#include "perftest/common/timing.h"

namespace perftest {
namespace {

template <class Group>
struct PutQuiet {
  std::byte* dest;
  const std::byte* source;
  std::size_t bytes;
  int pe;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    const Group group;
    for (unsigned i = 0; i < span.count; ++i) {
      ctx.put(group, dest, source, bytes, pe);
      if (group.thread_rank() == 0) ctx.quiet();
      group.sync();
    }
  }
};

void run(Bench& bench) {
  const Role role = bench.role();
  Exchange exchange(bench, bench.options().max_size);
  for (const std::string& scope : scopes_of(bench.options())) {
    const gshmem::LaunchShape shape = bench.shape_of(scope);
    for (const std::size_t bytes : sizes_of(bench.options(), 1)) {
      exchange.prepare(bytes);
      Measurement measured;
      with_scope(scope, [&]<class Group>(Group) {
        measured = measure(bench, shape, role.is_active(),
                           PutQuiet<Group>{exchange.dest(), exchange.source(), bytes, role.target});
      });
      exchange.check(bytes, role.source);
      bench.add_row({.size = bytes, .scope = scope, .blocks = 1, .threads = shape.threads},
                    measured, Trip::kRound, bytes);
    }
  }
}

constexpr const char* kSummary = "time of put + quiet";

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(
      {.name = "put_latency",
       .summary = kSummary,
       .groups = kSizes | kScope | kPattern,
       .shows = Shows::kLatency,
       .gpu = {.min_size = 8, .max_size = 1 << 20, .threads_per_cta = 1024},
       .cpu = {.min_size = 8, .max_size = 1 << 13, .repetitions = 3, .threads_per_cta = 2},
       .run = run},
      argc, argv);
}

// Time of a put that has arrived: put, then quiet, by one thread, warp or block.
#include "perftest/common/latency.h"
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
  run_latency(
      bench, 1, [&](const std::string& scope, const gshmem::LaunchShape& shape, std::size_t bytes) {
        exchange.prepare(bytes);
        Measurement measured;
        with_scope(scope, [&]<class Group>(Group) {
          measured =
              measure(bench, shape, timed_if(role.is_active()),
                      PutQuiet<Group>{exchange.dest(), exchange.source(), bytes, role.target});
        });
        exchange.check(bytes, role.source);
        return measured;
      });
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(latency_program("put_latency", "time of put + quiet", run), argc, argv);
}

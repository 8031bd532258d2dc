// Time of a blocking get by one thread, warp or block. Each get stores what it has loaded before
// the next one begins, so that none overlap.
#include "perftest/common/latency.h"
#include "perftest/common/timing.h"

namespace perftest {
namespace {

template <class Group>
struct Get {
  std::byte* dest;
  const std::byte* source;
  std::size_t bytes;
  int pe;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    const Group group;
    for (unsigned i = 0; i < span.count; ++i) {
      ctx.get(group, dest, source, bytes, pe);
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
          measured = measure(bench, shape, timed_if(role.is_active()),
                             Get<Group>{exchange.dest(), exchange.source(), bytes, role.target});
        });
        exchange.check(bytes, role.target);
        return measured;
      });
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(latency_program("get_latency", "time of a blocking get", run), argc, argv);
}

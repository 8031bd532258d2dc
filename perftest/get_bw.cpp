// Bandwidth of gets: all groups of the launch get their share of the message again and again.
#include "perftest/common/bandwidth.h"
#include "perftest/common/timing.h"

namespace perftest {
namespace {

template <class Group>
struct GetStream {
  std::byte* dest;
  const std::byte* source;
  std::size_t bytes;
  int pe;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    const Slice slice = slice_of<Group>(ctx, bytes);
    for (unsigned i = 0; i < span.count; ++i) {
      ctx.get_nbi(Group{}, dest + slice.begin, source + slice.begin, slice.bytes, pe);
    }
    complete<Group>(ctx);
  }
};

void run(Bench& bench) {
  const Role role = bench.role();
  Exchange exchange(bench, bench.options().max_size);
  run_bandwidth(bench, [&](const std::string& scope, const gshmem::LaunchShape& shape,
                           std::size_t bytes) {
    exchange.prepare(bytes);
    Measurement measured;
    with_scope(scope, [&]<class Group>(Group) {
      measured = measure(bench, shape, timed_if(role.is_active()),
                         GetStream<Group>{exchange.dest(), exchange.source(), bytes, role.target});
    });
    exchange.check(bytes, role.target);
    return measured;
  });
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(bandwidth_program("get_bw", "bandwidth of gets", run), argc, argv);
}

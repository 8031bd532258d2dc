// Bandwidth of p: every thread stores its elements at the target one by one.
#include "perftest/common/elements.h"
#include "perftest/common/timing.h"

namespace perftest {
namespace {

template <class T>
struct PStream {
  T* dest;
  const T* source;
  ElementSet set;
  int pe;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    const Place place = thread_place(ctx);
    for (unsigned i = 0; i < span.count; ++i) {
      for (std::size_t e = place.index; e < set.count; e += place.count) {
        ctx.p(dest + e * set.stride, source[e * set.stride], pe);
      }
    }
    ctx.quiet();
  }
};

void run(Bench& bench) {
  const Role role = bench.role();
  Exchange exchange(bench, largest_extent(bench.options()));
  run_elements(bench, exchange, role.source,
               [&]<class T>(const gshmem::LaunchShape& shape, ElementSet set, T) {
                 return measure(
                     bench, shape, timed_if(role.is_active()),
                     PStream<T>{exchange.dest_as<T>(), exchange.source_as<T>(), set, role.target});
               });
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(element_program("p_bw", "bandwidth of p", 0, run), argc, argv);
}

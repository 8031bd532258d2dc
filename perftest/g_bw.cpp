// Bandwidth of g: every thread fetches its elements one by one, and with --unroll requests several
// before it uses the first.
#include "perftest/common/elements.h"
#include "perftest/common/timing.h"

namespace perftest {
namespace {

template <class T, int kUnroll>
struct GStream {
  T* dest;
  const T* source;
  ElementSet set;
  int pe;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    const Place place = thread_place(ctx);
    for (unsigned i = 0; i < span.count; ++i) {
      for (std::size_t e = place.index; e < set.count; e += place.count * kUnroll) {
        T values[kUnroll] = {};
        for (int k = 0; k < kUnroll; ++k) {
          const std::size_t at = e + place.count * static_cast<std::size_t>(k);
          if (at < set.count) values[k] = ctx.g(source + at * set.stride, pe);
        }
        for (int k = 0; k < kUnroll; ++k) {
          const std::size_t at = e + place.count * static_cast<std::size_t>(k);
          if (at < set.count) dest[at * set.stride] = values[k];
        }
      }
    }
  }
};

template <class T, int kUnroll>
Measurement measure_g(Bench& bench, const Exchange& exchange, const gshmem::LaunchShape& shape,
                      ElementSet set) {
  const Role role = bench.role();
  return measure(
      bench, shape, timed_if(role.is_active()),
      GStream<T, kUnroll>{exchange.dest_as<T>(), exchange.source_as<T>(), set, role.target});
}

void run(Bench& bench) {
  Exchange exchange(bench, largest_extent(bench.options()));
  run_elements(bench, exchange, bench.role().target,
               [&]<class T>(const gshmem::LaunchShape& shape, ElementSet set, T) {
                 return bench.options().unroll == 1 ? measure_g<T, 1>(bench, exchange, shape, set)
                                                    : measure_g<T, 4>(bench, exchange, shape, set);
               });
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(element_program("g_bw", "bandwidth of g", kUnroll, run), argc, argv);
}

// Time of a p that has arrived: p, then quiet, by one thread. If PEs map each other, p is also
// measured with two fences in place of quiet: a release, which only orders, and a full fence.
#include "perftest/common/run.h"
#include "perftest/common/timing.h"

namespace perftest {
namespace {

template <class T>
GSHMEM_FN T value_of(std::uint64_t iteration) {
  return static_cast<T>((iteration + 1) * 0x9e3779b97f4a7c15u >> 7);
}

struct Quiet {
  GSHMEM_FN static void complete(const gshmem::LaunchContext& ctx) { ctx.quiet(); }
};
struct ReleaseFence {
  GSHMEM_FN static void complete(const gshmem::LaunchContext&) {
    gshmem::device::fence_release_system();
  }
};
struct FullFence {
  GSHMEM_FN static void complete(const gshmem::LaunchContext&) {
    gshmem::device::fence_complete_system();
  }
};

template <class T, class End>
struct PUntil {
  T* dest;
  int pe;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    for (unsigned i = 0; i < span.count; ++i) {
      ctx.p(dest, value_of<T>(span.first + i), pe);
      End::complete(ctx);
    }
  }
};

template <class T, class End = Quiet>
void run_word(Bench& bench, const std::string& name) {
  const Role role = bench.role();
  gshmem::SymmetricArray<T> dest(16);
  const gshmem::LaunchShape shape = bench.shape_of("thread");
  const Measurement measured =
      measure(bench, shape, timed_if(role.is_active()), PUntil<T, End>{dest.data(), role.target});
  T found{};
  dest.read(std::span(&found, 1), bench.my_pe());
  if (bench.options().inject_corruption) found = static_cast<T>(found ^ 1u);
  const T wanted = value_of<T>(bench.iterations_taken() - 1);
  bench.agree(role.source < 0 || found == wanted
                  ? ""
                  : "FAIL: wrong data: " + std::to_string(found) + " instead of the last value, " +
                        std::to_string(wanted));
  bench.add_row({.name = name, .size = sizeof(T), .scope = "thread"}, measured, Trip::kRound,
                sizeof(T));
}

void run(Bench& bench) {
  for_each_word(bench, [&]<class T>(T, const std::string& name) { run_word<T>(bench, name); });
  if (bench.path() == Path::kNetwork) return;
  run_word<std::uint64_t, ReleaseFence>(bench, "uint64 release");
  run_word<std::uint64_t, FullFence>(bench, "uint64 full");
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program({.name = "p_latency",
                      .summary = "time of p + quiet by one thread",
                      .groups = kType | kPattern,
                      .shows = Shows::kLatency,
                      .gpu = {},
                      .cpu = {.repetitions = 3},
                      .run = run},
                     argc, argv);
}

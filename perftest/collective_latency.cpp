// Time of collectives of all PEs, by one thread, warp or block of each: mean over the PEs. The size
// is what a PE gives to one other (alltoall, broadcast, fcollect), what is reduced (reduce), or
// what a PE gets of it (reducescatter).
#include "perftest/common/run.h"
#include "perftest/common/timing.h"

namespace perftest {
namespace {

enum class Kind { kAlltoall, kBroadcast, kFcollect, kReduce, kReducescatter };
constexpr int kRoot = 0;
/// Parts of `count` elements, one for each PE, or one.
template <Kind kKind>
inline constexpr bool kSourceHasParts = kKind == Kind::kAlltoall || kKind == Kind::kReducescatter;
template <Kind kKind>
inline constexpr bool kDestHasParts = kKind == Kind::kAlltoall || kKind == Kind::kFcollect;

/// What a PE gives and gets. Few and small values, of which a sum is exact.
template <Kind kKind>
struct Arrays {
  float* dest;
  float* source;
  std::size_t count;

  GSHMEM_FN std::size_t source_count(int n_pes) const {
    return kSourceHasParts<kKind> ? count * static_cast<std::size_t>(n_pes) : count;
  }
  GSHMEM_FN std::size_t dest_count(int n_pes) const {
    return kDestHasParts<kKind> ? count * static_cast<std::size_t>(n_pes) : count;
  }
  /// Of PE `pe` in round `round`.
  GSHMEM_FN static float given(int pe, std::size_t at, std::uint64_t round) {
    return static_cast<float>((at * 7 + static_cast<std::size_t>(pe) * 13 + round * 29) % 61);
  }
  GSHMEM_FN float expected(int my_pe, int n_pes, std::size_t at, std::uint64_t round) const {
    const std::size_t mine = static_cast<std::size_t>(my_pe) * count;
    if (kKind == Kind::kBroadcast) return given(kRoot, at, round);
    if (kDestHasParts<kKind>) {
      const int pe = static_cast<int>(at / count);
      return given(pe, at % count + (kKind == Kind::kAlltoall ? mine : 0), round);
    }
    float sum = 0;
    for (int pe = 0; pe < n_pes; ++pe) {
      sum += given(pe, at + (kKind == Kind::kReducescatter ? mine : 0), round);
    }
    return sum;
  }
  template <class Group>
  GSHMEM_FN int call(const gshmem::LaunchContext& ctx, const Group& group) const {
    if constexpr (kKind == Kind::kAlltoall)
      return ctx.alltoall(group, GSHMEM_TEAM_WORLD, dest, source, count);
    if constexpr (kKind == Kind::kBroadcast)
      return ctx.broadcast(group, GSHMEM_TEAM_WORLD, dest, source, count, kRoot);
    if constexpr (kKind == Kind::kFcollect)
      return ctx.fcollect(group, GSHMEM_TEAM_WORLD, dest, source, count);
    if constexpr (kKind == Kind::kReduce)
      return ctx.reduce<gshmem::ReduceOp::kSum>(group, GSHMEM_TEAM_WORLD, dest, source, count);
    if constexpr (kKind == Kind::kReducescatter)
      return ctx.reducescatter<gshmem::ReduceOp::kSum>(group, GSHMEM_TEAM_WORLD, dest, source,
                                                       count);
  }
};

template <Kind kKind, class Group>
struct CallAgain {
  static constexpr unsigned kMaxThreads = kLatencyThreads<Group>;
  Arrays<kKind> arrays;
  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    for (unsigned i = 0; i < span.count; ++i) (void)arrays.call(ctx, Group{});
  }
};

/// Other data in every round, all of which is looked at.
template <Kind kKind, class Group>
struct VerifyCollective {
  Arrays<kKind> arrays;
  std::uint64_t* wrong;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    const Group group;
    const std::size_t width = static_cast<std::size_t>(group.size());
    const std::size_t rank = static_cast<std::size_t>(group.thread_rank());
    const int n_pes = ctx.n_pes();
    for (unsigned i = 0; i < span.count; ++i) {
      const std::uint64_t round = span.first + i;
      for (std::size_t at = rank; at < arrays.source_count(n_pes); at += width) {
        arrays.source[at] = arrays.given(ctx.my_pe(), at, round);
      }
      for (std::size_t at = rank; at < arrays.dest_count(n_pes); at += width) arrays.dest[at] = -1;
      ctx.sync_all(group);  // nobody writes to what is being cleared
      bool bad = arrays.call(ctx, group) != 0;
      for (std::size_t at = rank; at < arrays.dest_count(n_pes); at += width) {
        bad |= arrays.dest[at] != arrays.expected(ctx.my_pe(), n_pes, at, round);
      }
      if (bad) ctx.atomic_add(wrong, 1, ctx.my_pe());
      ctx.sync_all(group);  // nor to what is being looked at
    }
  }
};

template <Kind kKind, class Group>
void run_size(Bench& bench, const char* name, const std::string& scope, std::size_t bytes) {
  constexpr unsigned kVerified = 5;
  const std::size_t count = bytes / sizeof(float);
  const std::size_t n = static_cast<std::size_t>(bench.n_pes());
  gshmem::SymmetricArray<float> dest(count * n), source(count * n);
  gshmem::SymmetricArray<std::uint64_t> wrong(1);
  const Arrays<kKind> arrays{dest.data(), source.data(), count};
  const gshmem::LaunchShape shape = bench.shape_of(scope);
  run_once(bench, shape, true, VerifyCollective<kKind, Group>{arrays, wrong.data()}, kVerified);
  const std::uint64_t last = bench.iterations_taken() - 1;
  dest.write(std::vector<float>(count * n, -1), bench.my_pe());
  const Measurement measured = measure(bench, shape, Part::kTimed, CallAgain<kKind, Group>{arrays});
  std::uint64_t bad = wrong.to_vector(bench.my_pe())[0];
  // Those that are timed find the sources of the last verified round.
  const std::vector<float> left = dest.to_vector(bench.my_pe());
  for (std::size_t at = 0; at < arrays.dest_count(bench.n_pes()); ++at) {
    if (left[at] != arrays.expected(bench.my_pe(), bench.n_pes(), at, last)) ++bad;
  }
  if (bench.options().inject_corruption) ++bad;
  bench.agree(bad == 0 ? ""
                       : std::string("FAIL: wrong data: ") + name + " of " + std::to_string(bytes) +
                             " bytes");
  const std::size_t others = bytes * (n - 1);
  bench.add_row({.name = name, .size = bytes, .scope = scope, .threads = shape.threads}, measured,
                Trip::kOneWay,
                kSourceHasParts<kKind> || kDestHasParts<kKind> ? others : others / n);
}

template <Kind kKind>
void run_kind(Bench& bench, const char* name) {
  for (const std::string& scope : scopes_of(bench.options())) {
    for (const std::size_t bytes : sizes_of(bench.options(), sizeof(float))) {
      with_scope(scope,
                 [&]<class Group>(Group) { run_size<kKind, Group>(bench, name, scope, bytes); });
    }
  }
}

void run(Bench& bench) {
  run_kind<Kind::kAlltoall>(bench, "alltoall");
  run_kind<Kind::kBroadcast>(bench, "broadcast");
  run_kind<Kind::kFcollect>(bench, "fcollect");
  run_kind<Kind::kReduce>(bench, "reduce");
  run_kind<Kind::kReducescatter>(bench, "reducescatter");
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program(
      {.name = "collective_latency",
       .summary = "time of collectives of all PEs",
       .groups = kSizes | kScope,
       .shows = Shows::kLatency,
       .gpu = {.min_size = 8, .max_size = 1 << 20, .step = 8, .threads_per_cta = 1024},
       .cpu = {.min_size = 8,
               .max_size = 1 << 10,
               .step = 128,
               .repetitions = 3,
               .threads_per_cta = 2},
       .run = run},
      argc, argv);
}

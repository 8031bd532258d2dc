// Code that barrier_latency and sync_latency share. Besides the measurement there is a run in which
// the PEs come late in turn. After the barrier all look whether the others have come to it.
#pragma once

#include "perftest/common/run.h"
#include "perftest/common/timing.h"

namespace perftest {

template <class Barrier, class Group>
struct WaitAgain {
  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    for (unsigned i = 0; i < span.count; ++i) Barrier::wait(ctx, Group{});
  }
};

template <class Barrier, class Group>
struct VerifyBarrier {
  std::uint64_t* reached;  ///< number of the last barrier that this PE has come to
  std::uint64_t* mailbox;  ///< the same of the PE before this one, written by it
  std::uint64_t* wrong;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    constexpr std::uint64_t kLateNs = 20000;
    const Group group;
    const bool leads = group.thread_rank() == 0;
    const int next = (ctx.my_pe() + 1) % ctx.n_pes();
    for (unsigned i = 0; i < span.count; ++i) {
      const std::uint64_t number = span.first + i + 1;
      if (leads) {
        const bool late = number % static_cast<std::uint64_t>(ctx.n_pes()) ==
                          static_cast<std::uint64_t>(ctx.my_pe());
        const std::uint64_t start = gshmem::device::now_ns();
        while (late && gshmem::device::now_ns() - start < kLateNs) {
        }
        ctx.p(reached, number, ctx.my_pe());
        if (Barrier::kCompletesPuts) ctx.p(mailbox, number, next);
      }
      Barrier::wait(ctx, group);
      if (leads) {
        bool early = false;
        for (int pe = 0; pe < ctx.n_pes(); ++pe) {
          // A PE that has come to the barrier may be on its way to the next one, not further.
          const std::uint64_t at = ctx.g(reached, pe);
          early |= at != number && at != number + 1;
        }
        if (Barrier::kCompletesPuts) early |= ctx.g(mailbox, ctx.my_pe()) < number;
        if (early) ctx.atomic_add(wrong, 1, ctx.my_pe());
      }
      group.sync();
    }
  }
};

/// A call of all PEs; kCompletesPuts: what was put before it has arrived after it.
struct BarrierAll {
  static constexpr bool kCompletesPuts = true;
  template <class Group>
  GSHMEM_FN static void wait(const gshmem::LaunchContext& ctx, const Group& group) {
    ctx.barrier_all(group);
  }
};
struct SyncAll {
  static constexpr bool kCompletesPuts = false;
  template <class Group>
  GSHMEM_FN static void wait(const gshmem::LaunchContext& ctx, const Group& group) {
    ctx.sync_all(group);
  }
};

template <class Barrier>
void run_barriers(Bench& bench) {
  constexpr unsigned kVerified = 50;
  gshmem::SymmetricArray<std::uint64_t> reached(1), mailbox(1), wrong(1);
  for (const std::string& scope : scopes_of(bench.options())) {
    const gshmem::LaunchShape shape = bench.shape_of(scope);
    Measurement measured;
    with_scope(scope, [&]<class Group>(Group) {
      run_once(bench, shape, true,
               VerifyBarrier<Barrier, Group>{reached.data(), mailbox.data(), wrong.data()},
               kVerified);
      measured = measure(bench, shape, Part::kTimed, WaitAgain<Barrier, Group>{});
    });
    std::uint64_t left = wrong.to_vector(bench.my_pe())[0];
    if (bench.options().inject_corruption) ++left;
    bench.agree(left == 0
                    ? ""
                    : "FAIL: left " + std::to_string(left) + " of " + std::to_string(kVerified) +
                          " barriers before all others had come to it");
    bench.add_row({.scope = scope, .threads = shape.threads}, measured, Trip::kOneWay, 0);
  }
}

/// The program for BarrierAll or SyncAll.
template <class Barrier>
[[nodiscard]] Program barrier_program(const char* name, const char* summary) {
  return {.name = name,
          .summary = summary,
          .groups = kScope,
          .shows = Shows::kLatency,
          .gpu = {.threads_per_cta = 1024},
          .cpu = {.repetitions = 3, .threads_per_cta = 2},
          .run = run_barriers<Barrier>};
}

}  // namespace perftest

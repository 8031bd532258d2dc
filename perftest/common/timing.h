// Measures on the device. A body is a functor `body(ctx, span)` that executes `span.count`
// operations. It is run once to warm up and once under the clock, inside one kernel. So neither the
// launch nor the start of the partner's kernel is measured.
//
// The clock is device::now_ns, the GPU's global timer, which all SMs share and whose unit is
// nanoseconds at any SM clock. It is coarse, so it is read only before the first and after the last
// iteration. The number of iterations is chosen so that they take milliseconds (bench.cpp). With
// several blocks the time is from the first start to the last end.
#pragma once

#include "perftest/common/bench.h"

namespace perftest {

/// The iterations of a pass; numbers increase over the whole program (see Bench::repeat).
struct Span {
  std::uint64_t first;
  unsigned count;
};

template <class Body>
struct Timed {
  Body body;
  std::uint64_t* stamps;
  std::uint64_t first;
  unsigned warmup, iters;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx) const {
    const gshmem::Block block;
    std::uint64_t start = 0;
    // This is a loop, so that the body is compiled once.
    for (int pass = 0; pass < 2; ++pass) {
      block.sync();
      if (pass == 1) start = gshmem::device::now_ns();
      body(ctx, pass == 0 ? Span{first, warmup} : Span{first + warmup, iters});
    }
    block.sync();
    if (block.thread_rank() == 0) {
      stamps[2 * ctx.block_rank()] = start;
      stamps[2 * ctx.block_rank() + 1] = gshmem::device::now_ns();
    }
  }
};

/// The role of a PE in a measurement.
enum class Part {
  kNone,    ///< nothing
  kSilent,  ///< runs the body, but its time does not count
  kTimed
};
inline Part timed_if(bool active) { return active ? Part::kTimed : Part::kNone; }

/// Returns the maximum number of threads per block that `body` is launched with: Body::kMaxThreads,
/// or the maximum of a block. Bodies that copy by threads or warps keep many loads in flight and
/// set 256, to get the registers.
template <class Body>
constexpr unsigned max_threads() {
  if constexpr (requires { Body::kMaxThreads; }) {
    return Body::kMaxThreads;
  } else {
    return 1024;
  }
}
/// kMaxThreads of a latency body: groups other than blocks are launched alone.
template <class Group>
inline constexpr unsigned kLatencyThreads = std::is_same_v<Group, gshmem::Block> ? 1024 : 256;

/// Launches `iters` timed iterations, after `warmup` untimed ones.
template <class Body>
void launch_timed(Bench& bench, const gshmem::abi::DeviceState& state,
                  const gshmem::LaunchShape& shape, const Body& body, std::uint64_t first,
                  unsigned warmup, unsigned iters) {
  gshmem::detail::launch_with<max_threads<Body>()>(
      state, shape, Timed<Body>{body, bench.stamps(), first, warmup, iters});
}
/// Loads the kernel. CUDA loads a kernel at its first launch, and cannot do so while another kernel
/// runs that waits for this one.
template <class Body>
void load_kernel(Bench& bench, const gshmem::abi::DeviceState& state,
                 const gshmem::LaunchShape& shape, const Body& body) {
  launch_timed(bench, state, shape, body, 0, 0, 0);
  gshmem::synchronize();
}

/// Collective: measures `body`, on PEs with state `state`.
template <class Body>
Measurement measure_with(Bench& bench, const gshmem::abi::DeviceState& state,
                         const gshmem::LaunchShape& shape, Part part, const Body& body) {
  const auto launch = [&](std::uint64_t first, unsigned warmup, unsigned iters) {
    launch_timed(bench, state, shape, body, first, warmup, iters);
  };
  const auto run = [&](std::uint64_t first, unsigned warmup, unsigned iters) {
    if (shape.blocks == 1) {
      launch(first, warmup, iters);
    } else {
      launch(first, warmup, 0);
      launch(first + warmup, 0, iters);
    }
    gshmem::synchronize();
  };
  // A partner's kernel may wait for it.
  if (part != Part::kNone) load_kernel(bench, state, shape, body);
  return bench.repeat([&](std::uint64_t first, unsigned warmup, unsigned iters) {
    bench.barrier();
    if (part == Part::kNone) return 0.0;
    run(first, warmup, iters);
    return part == Part::kTimed ? bench.elapsed_ns(shape.blocks) : 0.0;
  });
}
/// Collective: measures `body` on the PEs with their own states.
template <class Body>
Measurement measure(Bench& bench, const gshmem::LaunchShape& shape, Part part, const Body& body) {
  return measure_with(bench, *gshmemi_ambient()->state, shape, part, body);
}

template <class Body>
struct Untimed {
  Body body;
  Span span;
  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx) const { body(ctx, span); }
};

/// Collective: runs `count` iterations of `body`, untimed, on the PEs that are `active`. All have
/// finished on return.
template <class Body>
void run_once(Bench& bench, const gshmem::LaunchShape& shape, bool active, const Body& body,
              unsigned count) {
  const std::uint64_t first = bench.take_iterations(count);
  for (const unsigned n : {0u, count}) {  // 0 loads the kernel, see measure
    if (active) {
      gshmem::launch<max_threads<Body>()>(shape, Untimed<Body>{body, Span{first, n}});
      gshmem::synchronize();
    }
    bench.barrier();
  }
}

/// Returns the calling SM's clock, in cycles; on a CPU its time stamp counter, 0 if there is none.
GSHMEM_FN std::uint64_t clock_cycles() {
#if defined(__CUDA_ARCH__)
  return static_cast<std::uint64_t>(clock64());
#elif defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

/// The number of an item in the launch, and the count of all items of its kind.
struct Place {
  std::size_t index, count;
};
/// Returns the calling thread's number among all threads of the launch.
GSHMEM_FN Place thread_place(const gshmem::LaunchContext& ctx) {
  return {static_cast<std::size_t>(ctx.block_rank() * ctx.block_size() + ctx.thread_rank()),
          static_cast<std::size_t>(ctx.grid_size() * ctx.block_size())};
}
/// Returns the number of the calling thread's group among all groups of its kind.
template <class Group>
GSHMEM_FN Place group_place(const gshmem::LaunchContext& ctx) {
  const int width = Group{}.size();
  const int per_block = (ctx.block_size() + width - 1) / width;
  return {static_cast<std::size_t>(ctx.block_rank() * per_block + ctx.thread_rank() / width),
          static_cast<std::size_t>(ctx.grid_size() * per_block)};
}

/// A group's share of `bytes`: slices of whole cache lines, so that each line has one writer.
struct Slice {
  std::size_t begin, bytes;
};
template <class Group>
GSHMEM_FN Slice slice_of(const gshmem::LaunchContext& ctx, std::size_t bytes) {
  constexpr std::size_t kLine = 128;
  const Place place = group_place<Group>(ctx);
  const std::size_t share = ((bytes + place.count - 1) / place.count + kLine - 1) / kLine * kLine;
  const std::size_t begin = share * place.index;
  if (begin >= bytes) return {0, 0};
  return {begin, bytes - begin < share ? bytes - begin : share};
}

/// Completes everything that the group has issued, by one of its threads. On the network path each
/// such thread polls host memory. 32 blocks of 1024 such threads would take the bus from the copies
/// that they wait for.
template <class Group>
GSHMEM_FN void complete(const gshmem::LaunchContext& ctx) {
  const Group group;
  group.sync();
  if (group.thread_rank() == 0) ctx.quiet();
  group.sync();
}

/// Calls `run(group)` with the Thread, Warp or Block that `scope` names.
template <class Run>
void with_scope(const std::string& scope, const Run& run) {
  if (scope == "thread") return run(gshmem::Thread{});
  if (scope == "warp") return run(gshmem::Warp{});
  run(gshmem::Block{});
}

}  // namespace perftest

// The cost of a put to the GPU that issues it: clocks from call to return, and puts per second,
// into work queues whose consumer only acknowledges (common/ack_rig.h). No transfer takes place;
// the entries, records and doorbells are checked instead.
//
// Rows of clocks: the writer is one thread on a queue that others might share, the same after an
// acquire ("after a wait"), one thread on a queue of its own, or a converged warp. "grown": its
// memory is as in a part by which the heap has grown. Each row names the memory of the queue. The
// doorbell is a word in memory, the register of a NIC ("register"), or a word after the record, as
// a host thread forwards it to a NIC ("record"). "burst of n": gshmem::Burst on an exclusive queue,
// which rings after every n puts (with a warp: after every n of all 32 threads). "signal added" and
// "signal set": a put and a signal after it. "idle quiet": a quiet without pending operations,
// after one put to each of that many queues. Its clocks are those of a call by a thread or by a
// warp.
// Rows of rates: 1 to 64 queues, with a block for each, or the bursts of a warp. If a kernel
// acknowledges ("gpu acks"), the rate is the GPU's own. If host threads do, it also includes the
// path of doorbells to host memory.
#include "perftest/common/ack_rig.h"
#include "perftest/common/run.h"
#include "perftest/common/timing.h"

#include <algorithm>

namespace perftest {
namespace {

constexpr std::uint64_t kElements = 1024;
constexpr unsigned kMostQueues = AckKernel::kMaxThreads;

struct IssuePuts {
  static constexpr unsigned kMaxThreads = 1024;
  std::uint64_t *dest, *source;
  std::uint64_t* clocks;  ///< clocks of the first thread of each block in the last pass
  bool acquires;  ///< acquires before each put, as the end of a wait does: then nothing is cached

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    const int pe = ctx.my_pe();
    const unsigned thread = static_cast<unsigned>(ctx.thread_rank());
    const std::uint64_t start = clock_cycles();
    for (unsigned i = 0; i < span.count; ++i) {
      const std::uint64_t k = (thread + span.first + i) % kElements;
      if (acquires) gshmem::device::fence_acquire_system();
      ctx.put_nbi(gshmem::Thread{}, dest + k, source + k, 1, pe);
    }
    if (thread == 0) clocks[ctx.block_rank()] = clock_cycles() - start;
    ctx.quiet();
  }
};

/// Puts with a signal after each.
struct IssueSignals {
  static constexpr unsigned kMaxThreads = 1024;
  std::uint64_t *dest, *source;
  gshmem::Signal signal;
  std::uint64_t* clocks;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    const int pe = ctx.my_pe();
    const unsigned thread = static_cast<unsigned>(ctx.thread_rank());
    const std::uint64_t start = clock_cycles();
    for (unsigned i = 0; i < span.count; ++i) {
      const std::uint64_t k = (thread + span.first + i) % kElements;
      ctx.put_signal_nbi(gshmem::Thread{}, dest + k, source + k, 1, signal, pe);
    }
    if (thread == 0) clocks[ctx.block_rank()] = clock_cycles() - start;
    ctx.quiet();
  }
};

/// Calls of quiet without pending operations: all puts are in iteration `first`.
struct IssueQuiets {
  static constexpr unsigned kMaxThreads = 1024;
  std::uint64_t *dest, *source;
  std::uint64_t* clocks;
  std::uint64_t first;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    const unsigned thread = static_cast<unsigned>(ctx.thread_rank());
    if (span.first == first) {
      const std::uint64_t k = (thread + first) % kElements;
      ctx.put_nbi(gshmem::Thread{}, dest + k, source + k, 1, ctx.my_pe());
    }
    ctx.quiet();
    const std::uint64_t start = clock_cycles();
    for (unsigned i = 0; i < span.count; ++i) ctx.quiet();
    if (thread == 0) clocks[ctx.block_rank()] = clock_cycles() - start;
  }
};

/// Puts by a burst of a thread, or of a warp.
struct IssueBurst {
  static constexpr unsigned kMaxThreads = 32;
  std::uint64_t *dest, *source;
  std::uint64_t* clocks;
  unsigned each;  ///< puts of a thread between two doorbells

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    if (ctx.block_size() == 1) {
      put(ctx, gshmem::Thread{}, span);
    } else {
      put(ctx, gshmem::Warp{}, span);
    }
    ctx.quiet();
  }
  template <class Group>
  GSHMEM_FN void put(const gshmem::LaunchContext& ctx, Group group, Span span) const {
    const unsigned thread = static_cast<unsigned>(ctx.thread_rank());
    const std::uint64_t start = clock_cycles();
    gshmem::Burst burst(ctx, group, ctx.my_pe());
    unsigned left = each;
    for (unsigned i = 0; i < span.count; ++i) {
      const std::uint64_t k = (thread + span.first + i) % kElements;
      burst.put_nbi(dest + k, source + k, 1);
      if (--left == 0) {
        burst.ring();
        left = each;
      }
    }
    burst.ring();
    if (thread == 0) clocks[ctx.block_rank()] = clock_cycles() - start;
  }
};

enum class Call { kPut, kBurst, kSignalAdded, kSignalSet, kQuiet };

struct Case {
  std::string name;
  RigShape rig;
  unsigned threads = 1;  ///< on each queue, one block
  Call call = Call::kPut;
  unsigned burst = 0;  ///< puts of a thread between two doorbells
  bool acquires = false;
};

class IssueCost {
 public:
  explicit IssueCost(Bench& bench)
      : bench_(bench), dest_(kElements), source_(kElements), signal_(1), clocks_(kMostQueues) {
    std::vector<std::uint64_t> values(kElements);
    for (std::uint64_t k = 0; k < kElements; ++k) values[k] = source_value(k);
    source_.write(values, bench.my_pe());
  }

  /// Collective. Only PE 0 takes part: it puts to itself.
  void measure_case(const Case& work) {
    const bool active = bench_.my_pe() == 0;
    const gshmem::abi::DeviceState& own = *gshmemi_ambient()->state;
    AckRig rig(own, bench_.on_gpu(), work.rig);
    const gshmem::LaunchShape shape{.blocks = work.rig.queues, .threads = work.threads};
    const std::uint64_t first = bench_.iterations_taken();
    const auto measure = [&](const auto& functor) {
      if (work.rig.acks == Acks::kGpu && active) {
        load_kernel(bench_, rig.state(), shape, functor);
        gshmem::detail::launch_with<AckKernel::kMaxThreads>(
            rig.state(), {.blocks = 1, .threads = work.rig.queues, .stream = rig.ack_stream()},
            rig.ack_kernel());
      }
      return measure_with(bench_, rig.state(), shape, timed_if(active), functor);
    };
    const bool sets = work.call == Call::kSignalSet, quiets = work.call == Call::kQuiet;
    const auto measured_call = [&] {
      switch (work.call) {
        case Call::kPut:
          break;
        case Call::kBurst:
          return measure(IssueBurst{dest_.data(), source_.data(), clocks_.data(), work.burst});
        case Call::kSignalAdded:
        case Call::kSignalSet:
          return measure(
              IssueSignals{dest_.data(),
                           source_.data(),
                           {signal_.data(), 1, sets ? gshmem::Signal::kSet : gshmem::Signal::kAdd},
                           clocks_.data()});
        case Call::kQuiet:
          return measure(IssueQuiets{dest_.data(), source_.data(), clocks_.data(), first});
      }
      return measure(IssuePuts{dest_.data(), source_.data(), clocks_.data(), work.acquires});
    };
    const Measurement measured = measured_call();
    std::string problem;
    if (active) {
      const auto base = reinterpret_cast<std::uintptr_t>(own.heap);
      problem = rig.check({.source = reinterpret_cast<std::uintptr_t>(source_.data()) - base,
                           .dest = reinterpret_cast<std::uintptr_t>(dest_.data()) - base,
                           .elements = kElements,
                           .first = first,
                           .last = quiets ? first + 1 : bench_.iterations_taken(),
                           .threads = work.threads,
                           .in_order = work.threads == 1 || (bench_.on_gpu() && work.threads == 32),
                           .carried = work.call != Call::kBurst,
                           .signal_entries = signal_entries(work.call),
                           .signal = reinterpret_cast<std::uintptr_t>(signal_.data()) - base},
                          bench_.options().inject_corruption);
      if (!problem.empty()) problem = "FAIL: wrong entries: " + problem;
    }
    bench_.agree(problem);
    std::uint64_t clocks = 0;
    clocks_.read(std::span(&clocks, 1), 0);
    bench_.add_row(
        {.name = work.name,
         .size = 8,
         .scope = work.threads == 1 ? "thread" : "warp",
         .blocks = shape.blocks,
         .threads = shape.threads,
         .operations = std::size_t{shape.blocks} * shape.threads,
         .clocks = static_cast<double>(clocks) / measured.iters / (quiets ? 1 : work.threads)},
        measured, Trip::kStream, 0);
  }

 private:
  static unsigned signal_entries(Call call) {
    if (call == Call::kSignalAdded) return 1;
    return call == Call::kSignalSet ? 2 : 0;
  }

  Bench& bench_;
  gshmem::SymmetricArray<std::uint64_t> dest_, source_, signal_, clocks_;
};

/// Returns the kinds of memory: host and GPU memory on GPUs, and one kind in CPU mode.
std::vector<std::pair<std::string, MemorySide>> sides(const Bench& bench) {
  if (!bench.on_gpu()) return {{"host", MemorySide::kHost}};
  return {{"gpu", MemorySide::kGpu}, {"host", MemorySide::kHost}};
}

constexpr std::pair<gshmem::abi::Bell, const char*> kBells[] = {
    {gshmem::abi::Bell::kWord, ""},
    {gshmem::abi::Bell::kRegister, " register"},
    {gshmem::abi::Bell::kRecordWord, " record"}};

bool is_wanted(const Options& options, Acks acks) {
  return options.acks == "all" || options.acks == (acks == Acks::kGpu ? "gpu" : "host");
}

void run(Bench& bench) {
  if (bench.options().ctas > kMostQueues) {
    throw UsageError("--ctas: " +
                     not_accepted(std::to_string(bench.options().ctas),
                                  "1 to " + std::to_string(kMostQueues) + ", a queue for each"));
  }
  if (bench.options().acks == "gpu" && !bench.on_gpu()) {
    throw UsageError("--acks: 'gpu' needs PEs on GPUs");
  }
  IssueCost cost(bench);
  const unsigned warp = bench.shape_of("warp").threads;
  for (const auto& [side, memory] : sides(bench)) {
    if (!is_wanted(bench.options(), Acks::kHost)) break;
    for (const auto& [bell, how] : kBells) {
      const std::string where = side + how;
      RigShape rig{.memory = memory, .bell = bell};
      cost.measure_case({"shared " + where, rig, 1});
      cost.measure_case({"after a wait " + where, rig, 1, Call::kPut, 0, true});
      cost.measure_case({"warp " + where, rig, warp});
      for (const unsigned threads : {1u, warp}) {
        cost.measure_case({"signal added " + where, rig, threads, Call::kSignalAdded});
        cost.measure_case({"signal set " + where, rig, threads, Call::kSignalSet});
      }
      rig.grown = true;
      cost.measure_case({"grown " + where, rig, 1});
      cost.measure_case({"grown warp " + where, rig, warp});
      rig.grown = false;
      rig.exclusive = true;
      cost.measure_case({"exclusive " + where, rig, 1});
      cost.measure_case({"exclusive signal added " + where, rig, 1, Call::kSignalAdded});
      for (const unsigned burst : {1u, 16u}) {
        const std::string name = "burst of " + std::to_string(burst) + " " + where;
        cost.measure_case({name, rig, 1, Call::kBurst, burst});
        cost.measure_case({name, rig, warp, Call::kBurst, burst});
      }
    }
    for (const unsigned queues : {1u, std::min(16u, bench.options().ctas)}) {
      const RigShape rig{.queues = queues, .memory = memory, .bell = gshmem::abi::Bell::kRegister};
      const std::string name = "idle quiet " + side + ", " + std::to_string(queues) + " queues";
      cost.measure_case({name, rig, 1, Call::kQuiet});
      cost.measure_case({name, rig, warp, Call::kQuiet});
    }
  }
  for (const auto& [side, memory] : sides(bench)) {
    for (const Acks acks : {Acks::kHost, Acks::kGpu}) {
      if (acks == Acks::kGpu && memory != MemorySide::kGpu) continue;
      if (!is_wanted(bench.options(), acks)) continue;
      const std::string where = side + (acks == Acks::kGpu ? ", gpu acks" : "");
      for (unsigned queues = 1; queues <= bench.options().ctas; queues *= 2) {
        RigShape rig{
            .queues = queues, .memory = memory, .acks = acks, .bell = gshmem::abi::Bell::kRegister};
        cost.measure_case({"rate " + where, rig, bench.options().threads_per_cta});
        rig.exclusive = true;
        cost.measure_case({"burst rate " + where, rig, warp, Call::kBurst, 16});
      }
    }
  }
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  using namespace perftest;
  return run_program({.name = "issue_cost",
                      .summary = "clocks of a put on the network path, and puts per second, into "
                                 "queues that are only acknowledged",
                      .groups = kShape | kAcks,
                      .shows = Shows::kIssue,
                      .gpu = {.ctas = kMostQueues, .threads_per_cta = 256},
                      .cpu = {.warmup_iters = 3, .repetitions = 3, .ctas = 2, .threads_per_cta = 2},
                      .run = run},
                     argc, argv);
}

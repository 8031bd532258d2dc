// Calls by every kind of caller: a thread, warp or block of a kernel, the host, and a stream.
// calls.def lists each call once; Call<By, Id> is the form for one caller, with its check. Included
// by call_latency and collective_latency.
#pragma once

#include "perftest/common/gpu.h"
#include "perftest/common/run.h"
#include "perftest/common/timing.h"

#include <gshmem/blocks.h>
#include <gshmem/launch.hpp>
#include <gshmem/tile.hpp>

#include <utility>

namespace perftest {

/// Callers in addition to gshmem's groups.
struct ByHost {};
struct ByStream {};
template <class By>
inline constexpr bool kInKernel = !std::is_same_v<By, ByHost> && !std::is_same_v<By, ByStream>;

constexpr std::ptrdiff_t kApart = 2;          // for calls with gaps: every second element, or block
constexpr std::size_t kBlock = 4;             // words of a block in ibput
constexpr std::size_t kSet = 8;               // number of words for which one call waits
constexpr std::uint64_t kOne = 1, kHeld = 1;  // kHeld: value of a word that does not change
constexpr int kRoot = 0;

/// Tiles are rows of a matrix of twice their width.
constexpr std::size_t kTileWidth = 32;
constexpr Exchange::Elements kTileRows{kTileWidth * sizeof(float), kApart};
using FloatTile =
    gshmemx::Tensor<float, gshmemx::Layout<gshmemx::shape<int, gshmemx::ConstInt<kTileWidth>>,
                                           gshmemx::stride<int, gshmemx::ConstInt<1>>>>;
GSHMEM_FN FloatTile tile_of(std::byte* first, std::size_t bytes) {
  return {reinterpret_cast<float*>(first),
          {{static_cast<int>(bytes / kTileRows.bytes), {}},
           {static_cast<int>(kTileWidth * kTileRows.stride), {}}}};
}
struct NoBound {};

/// The defaults of CPU mode.
inline Options calls_on_cpu() {
  return {.min_size = 8,
          .max_size = 1 << 10,
          .step = 128,
          .iters = 100,
          .repetitions = 3,
          .threads_per_cta = 2};
}

/// The objects of a call. All but `values` and `result` are symmetric.
struct At {
  std::byte* dest;
  std::byte* source;
  std::size_t bytes;
  int pe;                  ///< the PE that the call names
  std::uint64_t* word;     ///< the word that it changes or reads
  std::uint64_t* set;      ///< kSet words of this PE, all kHeld
  std::uint64_t* values;   ///< kSet values to compare those with, in memory of the caller
  std::uint64_t* result;   ///< space for kSet words, in memory of the caller
  std::uint64_t* counter;  ///< on PE 0, protected by the lock
  long* lock;
  std::uint64_t* mailbox = nullptr;  ///< on `pe`; receives the number before the call
  std::uint64_t number = 0;          ///< number of the call, from 1
  gshmemx_stream_t stream = nullptr;

  template <class T>
  GSHMEM_FN T* dest_as() const {
    return reinterpret_cast<T*>(dest);
  }
  template <class T>
  GSHMEM_FN T* source_as() const {
    return reinterpret_cast<T*>(source);
  }

  GSHMEM_FN void take_lock() const {
    unsigned polls = 0;
    while (gshmem_test_lock(lock) != 0) gshmem::device::pause(++polls);
  }
  GSHMEM_FN void count_up() const { gshmem_uint64_p(counter, gshmem_uint64_g(counter, 0) + 1, 0); }
};

/// How the data of a call is checked, and what crosses the path at least.
struct Check {
  enum Kind {
    kPuts,         ///< the source must be in `dest` of the named PE
    kGets,         ///< the named PE's source must be in `dest` of the caller
    kWord,         ///< the word of the named PE must be `expected`
    kOwnWord,      ///< the word of the caller must be `expected`
    kAnswer,       ///< only the result is checked
    kLock,         ///< all PEs must have incremented the counter
    kSynchronize,  ///< all PEs must have entered the call
    kCollective,   ///< collective_latency checks it
  };
  Kind kind;
  Trip trip = Trip::kStream;
  Exchange::Elements elements{};  ///< the elements that are transferred, with gaps
  std::uint64_t initial = 0;      ///< initial value of the word
  /// Value of the word after a number of calls; null: any.
  std::uint64_t (*expected)(std::uint64_t);
  bool completes = false;  ///< a put before it has arrived after it

  [[nodiscard]] constexpr Check and_word(std::uint64_t (*after)(std::uint64_t)) const {
    Check both = *this;
    both.expected = after;
    return both;
  }
  [[nodiscard]] constexpr bool moves() const { return kind == kPuts || kind == kGets; }
  /// Do all PEs make the call?
  [[nodiscard]] constexpr bool by_all() const { return kind >= kLock; }
};
constexpr Check puts(Exchange::Elements elements = {}) {
  return {.kind = Check::kPuts, .elements = elements, .expected = nullptr};
}
constexpr Check gets(Exchange::Elements elements = {}) {
  return {.kind = Check::kGets, .elements = elements, .expected = nullptr};
}
constexpr Check word(Trip trip, std::uint64_t initial, std::uint64_t (*expected)(std::uint64_t)) {
  return {.kind = Check::kWord, .trip = trip, .initial = initial, .expected = expected};
}
constexpr Check own_word(std::uint64_t initial, std::uint64_t (*expected)(std::uint64_t)) {
  return {.kind = Check::kOwnWord, .initial = initial, .expected = expected};
}
constexpr Check of_kind(Check::Kind kind, Trip trip) {
  return {.kind = kind, .trip = trip, .expected = nullptr};
}
constexpr Check answer() { return of_kind(Check::kAnswer, Trip::kStream); }
constexpr Check locks() { return of_kind(Check::kLock, Trip::kStream); }
constexpr Check collective() { return of_kind(Check::kCollective, Trip::kOneWay); }
constexpr Check synchronizes(bool completes) {
  Check check = of_kind(Check::kSynchronize, Trip::kOneWay);
  check.completes = completes;
  return check;
}
constexpr std::uint64_t total(std::uint64_t calls) { return calls; }
constexpr std::uint64_t held(std::uint64_t) { return kHeld; }
constexpr std::uint64_t none(std::uint64_t) { return 0; }
GSHMEM_FN constexpr std::uint64_t odd(std::uint64_t calls) { return calls % 2; }

enum class Id {
#define PERFTEST_CALLERS 15
#define PERFTEST_CALL(NAME, ...) NAME,
#include "perftest/common/calls.def"
#undef PERFTEST_CALLERS
  kCount
};

/// Call `kId` by `By`: `name`, `check` and `make`. Empty if such a caller cannot make it.
template <class By, Id kId>
struct Call {};

// The forms of a call. The first thread of a group stores the number.
#define F_THREAD(PREFIX, STEM, ...) PREFIX##_##STEM(__VA_ARGS__)
#define F_WARP(PREFIX, STEM, ...) gshmemx_##STEM##_warp(__VA_ARGS__)
#define F_BLOCK(PREFIX, STEM, ...) gshmemx_##STEM##_block(__VA_ARGS__)
#define F_STREAM(PREFIX, STEM, ...) gshmemx_##STEM##_on_stream(__VA_ARGS__ __VA_OPT__(, ) at.stream)
#define STRIDED(COUNT)                                                                          \
  at.template dest_as<std::uint64_t>(), at.template source_as<std::uint64_t>(), kApart, kApart, \
      COUNT
#define BLOCKED                                                                 \
  at.template dest_as<std::uint64_t>(), at.template source_as<std::uint64_t>(), \
      kApart *std::ptrdiff_t{kBlock}, kApart *std::ptrdiff_t{kBlock}, kBlock,   \
      at.bytes / (8 * kBlock)
#define TILE_BY(STEM, ALGORITHM) \
  gshmemx::tile_##STEM<FloatTile, FloatTile, NoBound, gshmemx::ALGORITHM>
#define TILE_WAIT_BY(SUFFIX, ALGORITHM) gshmemx::tile_collective_wait##SUFFIX<gshmemx::ALGORITHM>
#define WAIT_SET at.set, kSet, nullptr, GSHMEM_CMP_EQ
#define PERFTEST_CALL_BY(BY, FN, NAME, CHECK, ...)                 \
  template <>                                                      \
  struct Call<BY, Id::NAME> {                                      \
    using By = BY;                                                 \
    static constexpr const char* kName = #NAME;                    \
    static constexpr Check kCheck = CHECK;                         \
    template <class A>                                             \
    FN static bool make(const A& at) {                             \
      [[maybe_unused]] const std::uint64_t before = at.number - 1; \
      if (at.mailbox) P_AT(at.mailbox);                            \
      return __VA_ARGS__;                                          \
    }                                                              \
  };
#define P P_AT(at.word)

#define P_AT(WORD) gshmem_uint64_p(WORD, at.number, at.pe)
#define F F_THREAD
#define PERFTEST_CALLERS 9
#define TILE(STEM, ALGORITHM) TILE_BY(STEM, ALGORITHM)
#define TILE_WAIT(ALGORITHM) TILE_WAIT_BY(, ALGORITHM)
#define PERFTEST_CALL(...) PERFTEST_CALL_BY(gshmem::Thread, GSHMEM_FN, __VA_ARGS__)
#include "perftest/common/calls.def"
#undef TILE_WAIT
#undef TILE
#undef PERFTEST_CALLERS
#define PERFTEST_CALLERS 1
#define PERFTEST_CALL(...) PERFTEST_CALL_BY(ByHost, inline, __VA_ARGS__)
#include "perftest/common/calls.def"
#undef F
#undef PERFTEST_CALLERS
#undef P_AT

#define P_AT(WORD) \
  (By{}.thread_rank() == 0 ? gshmem_uint64_p(WORD, at.number, at.pe) : static_cast<void>(0))
#define PERFTEST_CALLERS 10
#define F F_WARP
#define TILE(STEM, ALGORITHM) TILE_BY(STEM##_warp, ALGORITHM)
#define TILE_WAIT(ALGORITHM) TILE_WAIT_BY(_warp, ALGORITHM)
#define PERFTEST_CALL(...) PERFTEST_CALL_BY(gshmem::Warp, GSHMEM_FN, __VA_ARGS__)
#include "perftest/common/calls.def"
#undef TILE_WAIT
#undef TILE
#undef F
#define F F_BLOCK
#define TILE(STEM, ALGORITHM) TILE_BY(STEM##_block, ALGORITHM)
#define TILE_WAIT(ALGORITHM) TILE_WAIT_BY(_block, ALGORITHM)
#define PERFTEST_CALL(...) PERFTEST_CALL_BY(gshmem::Block, GSHMEM_FN, __VA_ARGS__)
#include "perftest/common/calls.def"
#undef TILE_WAIT
#undef TILE
#undef F
#undef PERFTEST_CALLERS
#undef P_AT

#define P_AT(WORD) gshmemx_uint64_p_on_stream(WORD, at.number, at.pe, at.stream)
#define PERFTEST_CALLERS 4
#define F F_STREAM
#define PERFTEST_CALL(...) PERFTEST_CALL_BY(ByStream, inline, __VA_ARGS__)
#include "perftest/common/calls.def"
#undef F
#undef PERFTEST_CALLERS
#undef P_AT

#undef P
#undef F_THREAD
#undef F_WARP
#undef F_BLOCK
#undef F_STREAM
#undef STRIDED
#undef BLOCKED
#undef WAIT_SET
#undef TILE_BY
#undef TILE_WAIT_BY
#undef PERFTEST_CALL_BY

/// Makes the calls of the span, and waits until their operations are complete.
template <class By, class C>
struct Calls {
  static constexpr unsigned kMaxThreads = kLatencyThreads<By>;
  At at;
  std::uint64_t* wrong;  ///< on this PE; counts passes in which a call returned a wrong value

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    bool right = true;
    At each = at;
    for (unsigned i = 0; i < span.count; ++i) {
      each.number = span.first + i - at.number;
      right &= C::make(each);
    }
    complete<By>(ctx);
    if (!right) ctx.atomic_add(wrong, 1, ctx.my_pe());
  }
};
template <class By, class C>
requires(!kInKernel<By>) struct Calls<By, C> {
  At at;
  std::uint64_t* wrong;

  void operator()(Span span) const {
    bool right = true;
    At each = at;
    for (unsigned i = 0; i < span.count; ++i) {
      each.number = span.first + i - at.number;
      right &= C::make(each);
    }
    if constexpr (std::is_same_v<By, ByStream>) {
      gshmemx_quiet_on_stream(at.stream);
      gshmem::synchronize(at.stream);
    } else {
      gshmem_quiet();
    }
    if (!right) gshmem_uint64_atomic_add(wrong, 1, gshmem_my_pe());
  }
};

/// Collective: measures the calls; their numbers begin at 1. `part` must not be kSilent.
template <class By, class C>
Measurement measure_calls(Bench& bench, const gshmem::LaunchShape& shape, Part part, At at,
                          std::uint64_t* wrong) {
  at.number = bench.iterations_taken() - 1;
  const Calls<By, C> calls{at, wrong};
  if constexpr (kInKernel<By>) {
    return measure(bench, shape, part, calls);
  } else {
    return bench.repeat([&](std::uint64_t first, unsigned warmup, unsigned iters) {
      bench.barrier();
      if (part == Part::kNone) return 0.0;
      calls(Span{first, warmup});
      const std::uint64_t start = gshmem::device::now_ns();
      calls(Span{first + warmup, iters});
      return static_cast<double>(gshmem::device::now_ns() - start);
    });
  }
}

/// Makes only call `number`, or no call for 0, which loads the kernel. Does not wait for other PEs.
template <class By, class C>
void call_once(const gshmem::LaunchShape& shape, At at, std::uint64_t number,
               std::uint64_t* wrong) {
  at.number = 0;
  const Calls<By, C> calls{at, wrong};
  const Span span{number, number > 0 ? 1u : 0u};
  if constexpr (kInKernel<By>) {
    gshmem::launch<max_threads<Calls<By, C>>()>(shape, Untimed<Calls<By, C>>{calls, span});
    gshmem::synchronize();
  } else if (number > 0) {
    calls(span);
  }
}

/// Calls `run(By{})` with the caller of that name.
template <class Run>
void with_caller(const std::string& name, const Run& run) {
  if (name == "host") return run(ByHost{});
  if (name == "stream") return run(ByStream{});
  with_scope(name, run);
}

/// Calls `run(By{}, Call<By, kId>{}, scope)` for the calls of --call by those of --scope, either
/// collectives or all others. Errors: UsageError when there is none. Also for kernels of PEs that
/// are threads and share a GPU: calls in kernels know one PE only.
template <bool kCollectives, class Run>
void for_each_call(const Bench& bench, const Run& run) {
  const Options& options = bench.options();
  bool any = false;
  const auto each = [&]<class By, Id kId>(By by, std::integral_constant<Id, kId>,
                                          const std::string& scope) {
    using C = Call<By, kId>;
    if constexpr (requires { C::kName; }) {
      if constexpr ((C::kCheck.kind == Check::kCollective) == kCollectives) {
        if (options.call != "all" && options.call != C::kName) return;
        any = true;
        run(by, C{}, scope);
      }
    }
  };
  for (const std::string& scope : callers_of(options)) {
    with_caller(scope, [&]<class By>(By by) {
      if (kInKernel<By> && options.pes != 0 &&
          gshmemx_init_status() != GSHMEMX_INIT_STATUS_IS_INITIALIZED) {
        throw UsageError("--scope: " + not_accepted(scope,
                                                    "host|stream where PEs are threads and "
                                                    "share a GPU"));
      }
      [&]<std::size_t... kIds>(std::index_sequence<kIds...>) {
        (each(by, std::integral_constant<Id, Id{kIds}>{}, scope), ...);
      }
      (std::make_index_sequence<static_cast<std::size_t>(Id::kCount)>{});
    });
  }
  if (!any) throw UsageError("--call: no '" + options.call + "' here by '" + options.scope + "'");
}

/// Prints a note, and returns true, if larger sizes of a call would take minutes, for example
/// element by element.
[[nodiscard]] inline bool is_slow(Bench& bench, const char* name, const std::string& scope,
                                  std::size_t bytes, const Measurement& measured) {
  constexpr double kSlowUs = 2000;
  if (measured.median_us < kSlowUs) return false;
  bench.add_summary(std::string(name) + " by " + scope,
                    "no more than " + std::to_string(bytes) + " bytes, which take milliseconds");
  return true;
}

/// Returns the shape in which `scope` makes calls; one thread for the host and streams.
[[nodiscard]] inline gshmem::LaunchShape shape_of_caller(const Bench& bench,
                                                         const std::string& scope) {
  return bench.shape_of(scope == "host" || scope == "stream" ? "thread" : scope);
}

}  // namespace perftest

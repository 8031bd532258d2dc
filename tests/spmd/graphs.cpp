// Calls on streams with features that only GPUs have: graphs that are captured once and launched
// repeatedly, kernels that are still running, captures of other threads.
#include "tests/spmd/stream.h"
#include "tests/spmd/teams.h"

#include <atomic>
#include <thread>
#include <vector>

using namespace gshmem;
using namespace gshmem::spmd;

#if defined(__CUDACC__)
namespace {

constexpr std::size_t kWords = 700;

/// The symmetric memory of a graph. The graph itself counts the rounds: each launch is one.
struct Place {
  std::uint64_t *round, *source, *dest, *signal, *got;
};
GSHMEM_FN std::uint64_t word_of(int pe, std::uint64_t round, std::size_t i) {
  return mix(static_cast<std::uint64_t>(pe) << 32 | round, i);
}

struct NextRound {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, Place place) const {
    const std::uint64_t round = *place.round + 1;
    ctx.block().sync();
    for (std::size_t i = static_cast<std::size_t>(ctx.thread_rank()); i < kWords;
         i += static_cast<std::size_t>(ctx.block_size())) {
      place.source[i] = word_of(ctx.my_pe(), round, i);
    }
    if (ctx.thread_rank() == 0) *place.round = round;
  }
};
struct CheckRound {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, Place place) const {
    const int previous = (ctx.my_pe() + ctx.n_pes() - 1) % ctx.n_pes();
    for (std::size_t i = static_cast<std::size_t>(ctx.thread_rank()); i < kWords;
         i += static_cast<std::size_t>(ctx.block_size())) {
      SPMD_EQ(log, place.dest[i], word_of(previous, *place.round, i), *place.round);
      SPMD_EQ(log, place.got[i], word_of(previous, *place.round, i), *place.round);
    }
  }
};

void require(cudaError_t error, const char* call) { detail::check_cuda(error, call); }

/// Queues all kinds of calls, in an order that restores every word.
void leave_round(Pe& pe, const Stream& stream, const Place& place, gshmem_team_t team) {
  const gshmemx_stream_t s = stream.get();
  stream.run(pe, NextRound{}, place);
  gshmemx_putmem_signal_on_stream(place.dest, place.source, kWords * 8, place.signal, 1,
                                  GSHMEM_SIGNAL_ADD, pe.next(), s);
  gshmemx_signal_wait_until_on_stream(place.signal, GSHMEM_CMP_EQ, 1, s);
  gshmemx_signal_op_on_stream(place.signal, 0, GSHMEM_SIGNAL_SET, pe.me(), s);
  SPMD_EQ(pe, gshmemx_barrier_on_stream(team, s), 0);
  constexpr std::size_t kPart = kWords / 3;
  gshmemx_uint64_get_on_stream(place.got, place.source, kPart, pe.previous(), s);
  for (const int num_blocks : {0, 2}) {  // the graph keeps the list, which ends here
    const std::size_t at = kPart + static_cast<std::size_t>(num_blocks / 2) * kPart;
    const std::size_t words = num_blocks == 0 ? kPart : kWords - at;
    const gshmemx_piece_t piece{place.got + at, place.source + at, words * 8};
    gshmemx_getv_on_stream(&piece, 1, pe.previous(), num_blocks, s);
  }
  gshmemx_quiet_on_stream(s);
  stream.run(pe, CheckRound{}, place);
  gshmemx_barrier_all_on_stream(s);
}

/// The symmetric memory of a graph of collectives on a team of all PEs in reverse order.
struct Places {
  std::size_t part;  ///< words that one member sends to another
  std::uint64_t *round, *flags, *source, *exchanged, *gathered, *sum, *given, *spread, *later;
  static std::size_t words(std::size_t n, std::size_t part) { return 1 + n + (3 * n + 5) * part; }
  Places(std::uint64_t* first, std::size_t n, std::size_t words_of_part)
      : part(words_of_part),
        round(first),
        flags(round + 1),
        source(flags + n),
        exchanged(source + n * part),
        gathered(exchanged + n * part),
        sum(gathered + n * part),
        given(sum + part),
        spread(given + part),
        later(spread + 2 * part) {}
};
struct NextParts {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, Places at) const {
    const std::uint64_t round = *at.round + 1;
    ctx.block().sync();
    const std::size_t words = at.part * static_cast<std::size_t>(ctx.n_pes());
    for (std::size_t i = static_cast<std::size_t>(ctx.thread_rank()); i < words;
         i += static_cast<std::size_t>(ctx.block_size())) {
      at.source[i] = word_of(ctx.my_pe(), round, i);
    }
    if (ctx.thread_rank() == 0) *at.round = round;
  }
};
struct Checparts {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, Places at) const {
    const std::uint64_t round = *at.round;
    const int n = ctx.n_pes(), last = n - 1, previous = (ctx.my_pe() + last) % n;
    const std::size_t mine = at.part * static_cast<std::size_t>(last - ctx.my_pe());
    for (std::size_t i = static_cast<std::size_t>(ctx.thread_rank()); i < at.part;
         i += static_cast<std::size_t>(ctx.block_size())) {
      std::uint64_t sum = 0;
      for (int member = 0; member < n; ++member) {
        const std::size_t k = at.part * static_cast<std::size_t>(member) + i;
        SPMD_EQ(log, at.exchanged[k], word_of(last - member, round, mine + i), round);
        SPMD_EQ(log, at.gathered[k], word_of(last - member, round, i), round);
        sum += word_of(member, round, i);
      }
      SPMD_EQ(log, at.sum[i], sum, round);
      SPMD_EQ(log, at.given[i], word_of(last, round, i), round);
      SPMD_EQ(log, at.spread[2 * i], word_of(previous, round, i), round);
      SPMD_EQ(log, at.later[i], word_of(previous, round, i), round);
    }
    for (int pe = ctx.thread_rank(); pe < n; pe += ctx.block_size()) at.flags[pe] = 0;
  }
};
void leave_collectives(Pe& pe, const Stream& stream, const Places& at, gshmem_team_t team) {
  const std::size_t n = at.part;
  const gshmemx_stream_t s = stream.get();
  stream.run(pe, NextParts{}, at);
  SPMD_EQ(pe, gshmemx_uint64_alltoall_on_stream(team, at.exchanged, at.source, n, s), 0);
  SPMD_EQ(pe, gshmemx_uint64_fcollect_on_stream(team, at.gathered, at.source, n, s), 0);
  SPMD_EQ(pe, gshmemx_uint64_sum_reduce_on_stream(team, at.sum, at.source, n, s), 0);
  SPMD_EQ(pe, gshmemx_uint64_broadcast_on_stream(team, at.given, at.source, n, 0, s), 0);
  gshmemx_uint64_iput_on_stream(at.spread, at.source, 2, 1, n, pe.next(), s);
  gshmemx_uint64_put_nbi_on_stream(at.later, at.source, n, pe.next(), s);
  gshmemx_quiet_on_stream(s);
  for (int to = 0; to < pe.n(); ++to) gshmemx_uint64_p_on_stream(at.flags + pe.me(), 1, to, s);
  gshmemx_uint64_wait_until_all_on_stream(at.flags, static_cast<std::size_t>(pe.n()), nullptr,
                                          GSHMEM_CMP_EQ, 1, s);
  gshmemx_sync_all_on_stream(s);
  stream.run(pe, Checparts{}, at);
  SPMD_EQ(pe, gshmemx_team_sync_on_stream(team, s), 0);
}

class Graph {
 public:
  /// Captures the calls that `leave` queues in the stream.
  template <class Leave>
  Graph(const Stream& stream, const Leave& leave) {
    const detail::GpuScope scope;
    // The capture is limited to this thread: other PEs of the process run at the same time.
    require(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
    leave();
    require(cudaStreamEndCapture(stream.get(), &graph_), "cudaStreamEndCapture");
    require(cudaGraphInstantiate(&executable_, graph_, 0), "cudaGraphInstantiate");
  }
  ~Graph() {
    (void)cudaGraphExecDestroy(executable_);
    (void)cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  void launch_in(const Stream& stream) const {
    const detail::GpuScope scope;
    require(cudaGraphLaunch(executable_, stream.get()), "cudaGraphLaunch");
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

/// Ends when `gate` is open.
struct AwaitGate {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, std::uint64_t* gate,
                            std::uint64_t* source, std::uint64_t round) const {
    if (ctx.thread_rank() == 0) ctx.wait_until(gate, Cmp::kGe, round);
    ctx.block().sync();
    for (std::size_t i = static_cast<std::size_t>(ctx.thread_rank()); i < kWords;
         i += static_cast<std::size_t>(ctx.block_size())) {
      source[i] = word_of(ctx.my_pe(), round, i);
    }
  }
};

/// Puts words to the next PE between two addresses that are in memory.
struct PutBetween {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, const std::uint64_t* addresses) const {
    if (ctx.thread_rank() != 0) return;
    auto* const dest = reinterpret_cast<std::uint64_t*>(addresses[0]);
    const auto* const source = reinterpret_cast<const std::uint64_t*>(addresses[1]);
    gshmem_uint64_put(dest, source, kWords, (ctx.my_pe() + 1) % ctx.n_pes());
  }
};

}  // namespace

SPMD_TEST_WITH_HEAP(a_graph_reaches_memory_by_which_the_heap_has_grown_since,
                    std::size_t{4} << 20) {
  if (!pe.on_gpu()) return pe.skip(kNoStreams);
  if (streams_hold_each_other_up(pe)) return;
  SymmetricArray<std::uint64_t> memory(2 + 2 * kWords);
  std::uint64_t* const addresses = memory.data();
  const Stream stream(pe);
  gshmemx_barrier_all_on_stream(stream.get());
  const Graph graph(stream, [&] {
    stream.run(pe, PutBetween{}, addresses);
    gshmemx_barrier_all_on_stream(stream.get());
  });
  const auto put = [&](std::uint64_t* dest, std::uint64_t* source, std::uint64_t round) {
    std::vector<std::uint64_t> words(kWords);
    for (std::size_t i = 0; i < kWords; ++i) words[i] = word_of(pe.me(), round, i);
    gshmem_uint64_put(source, words.data(), kWords, pe.me());
    const std::uint64_t places[] = {reinterpret_cast<std::uintptr_t>(dest),
                                    reinterpret_cast<std::uintptr_t>(source)};
    gshmem_uint64_put(addresses, places, 2, pe.me());
    pe.barrier();
    graph.launch_in(stream);
    stream.finish();
    for (const std::size_t i : {std::size_t{0}, kWords - 1})
      SPMD_EQ(pe, gshmem_uint64_g(dest + i, pe.me()), word_of(pe.previous(), round, i));
    pe.barrier();
  };
  put(addresses + 2, addresses + 2 + kWords, 1);
  std::vector<void*> parts;
  for (std::uint64_t round = 2; round < 5; ++round) {
    constexpr std::size_t kMore = std::size_t{24} << 20;
    auto* const more = static_cast<std::uint64_t*>(gshmem_malloc(kMore));
    SPMD_CHECK(pe, more != nullptr);
    if (more == nullptr) break;
    put(more + kMore / 8 - kWords, more, round);
    put(more, addresses + 2, round);
    parts.push_back(more);
  }
  for (void* part : parts) gshmem_free(part);
}

SPMD_TEST(a_graph_of_calls_on_a_stream_can_be_launched_a_hundred_times) {
  if (!pe.on_gpu()) return pe.skip(kNoStreams);
  if (streams_hold_each_other_up(pe)) return;
  SymmetricArray<std::uint64_t> memory(2 + 3 * kWords);
  std::uint64_t* const m = memory.data();
  const Place place{m, m + 2, m + 2 + kWords, m + 1, m + 2 + 2 * kWords};
  const OwnTeam team = split(pe, GSHMEM_TEAM_WORLD, pe.n() - 1, -1, pe.n());
  const Stream stream(pe);
  leave_round(pe, stream, place, team.get());
  const Graph graph(stream, [&] { leave_round(pe, stream, place, team.get()); });
  for (int i = 0; i < 100; ++i) {
    graph.launch_in(stream);
    if (i % 7 == 0) gshmemx_barrier_all_on_stream(stream.get());
    if (i % 11 == 0) leave_round(pe, stream, place, team.get());
    if (i % 13 == 0) SPMD_EQ(pe, gshmemx_team_sync_on_stream(team.get(), stream.get()), 0);
  }
  stream.finish();
  SPMD_EQ(pe, gshmem_uint64_g(place.round, pe.me()), 1u + 100u + 10u);
}

SPMD_TEST(a_graph_of_collectives_on_a_stream_can_be_launched_again_between_other_collectives) {
  if (!pe.on_gpu()) return pe.skip(kNoStreams);
  if (streams_hold_each_other_up(pe)) return;
  const auto n = static_cast<std::size_t>(pe.n());
  const OwnTeam team = split(pe, GSHMEM_TEAM_WORLD, pe.n() - 1, -1, pe.n());
  const Stream stream(pe);
  // The sizes use packets, and many blocks.
  for (const std::size_t part : {37ul, 20'000ul}) {
    if (pe.on_network() && part > 37) continue;
    SymmetricArray<std::uint64_t> memory(Places::words(n, part));
    const Places at(memory.data(), n, part);
    leave_collectives(pe, stream, at, team.get());
    const Graph graph(stream, [&] { leave_collectives(pe, stream, at, team.get()); });
    for (int i = 0; i < 30; ++i) {
      graph.launch_in(stream);
      if (i % 7 == 0) leave_collectives(pe, stream, at, team.get());
    }
    stream.finish();
    SPMD_EQ(pe, gshmem_uint64_g(at.round, pe.me()), 1u + 30u + 5u);
  }
}

SPMD_TEST(calls_on_a_stream_return_before_its_kernel_has_ended) {
  if (!pe.on_gpu()) return pe.skip(kNoStreams);
  if (streams_hold_each_other_up(pe)) return;
  SymmetricArray<std::uint64_t> memory(2 + 3 * kWords);
  std::uint64_t *const gate = memory.data(), *const signal = gate + 1, *const source = gate + 2;
  std::uint64_t *const dest = source + kWords, *const got = dest + kWords;
  const Stream stream(pe);
  const gshmemx_stream_t s = stream.get();
  for (std::uint64_t round = 1; round <= 5; ++round) {
    stream.run(pe, AwaitGate{}, gate, source, round);
    gshmemx_putmem_signal_on_stream(dest, source, kWords * 8, signal, round, GSHMEM_SIGNAL_SET,
                                    pe.next(), s);
    gshmemx_signal_wait_until_on_stream(signal, GSHMEM_CMP_EQ, round, s);
    gshmemx_barrier_all_on_stream(s);
    gshmemx_getmem_on_stream(got, source, kWords * 8, pe.previous(), s);
    gshmemx_barrier_all_on_stream(s);
    SPMD_CHECK(pe, gshmem_uint64_g(signal, pe.me()) < round);  // nothing of it has been executed
    pe.barrier();
    gshmem_uint64_p(gate, round, pe.me());
    stream.finish();
    for (const std::size_t i : {std::size_t{0}, kWords - 1}) {
      SPMD_EQ(pe, gshmem_uint64_g(dest + i, pe.me()), word_of(pe.previous(), round, i));
      SPMD_EQ(pe, gshmem_uint64_g(got + i, pe.me()), word_of(pe.previous(), round, i));
    }
    pe.barrier();
  }
}

SPMD_TEST(streams_do_not_wait_for_each_other) {
  if (!pe.on_gpu()) return pe.skip(kNoStreams);
  if (streams_hold_each_other_up(pe)) return;
  SymmetricArray<std::uint64_t> memory(2 + 3 * kWords);
  std::uint64_t *const gate = memory.data(), *const source = gate + 2;
  std::uint64_t* const dest = source + kWords;
  const OwnTeam team = split(pe, GSHMEM_TEAM_WORLD, 0, 1, pe.n());
  const Stream slow(pe), fast(pe);
  // The first stream waits for a kernel that ends after the work of the second.
  slow.run(pe, AwaitGate{}, gate, source, std::uint64_t{1});
  gshmemx_uint64_put_on_stream(dest, source, kWords, pe.next(), slow.get());
  gshmemx_barrier_all_on_stream(slow.get());
  for (int i = 0; i < 20; ++i) SPMD_EQ(pe, gshmemx_barrier_on_stream(team.get(), fast.get()), 0);
  gshmemx_uint64_p_on_stream(gate, 1, pe.me(), fast.get());
  fast.finish();
  slow.finish();
  SPMD_EQ(pe, gshmem_uint64_g(dest + 5, pe.me()), word_of(pe.previous(), 1, 5));
  pe.barrier();
}

SPMD_TEST(calls_on_a_stream_do_not_disturb_the_capture_of_another_thread) {
  if (!pe.on_gpu()) return pe.skip(kNoStreams);
  if (streams_hold_each_other_up(pe)) return;
  SymmetricArray<std::uint64_t> memory(2);
  const Stream used(pe), captured(pe);
  pe.barrier();  // while PEs of this process capture, none makes streams
  void* const handle = gshmemx_pe_handle();
  std::atomic<int> step{0};
  std::thread other([&] {
    SPMD_EQ(pe, gshmemx_bind_thread(handle), 0);
    const detail::GpuScope scope;
    cudaGraph_t graph = nullptr;
    const cudaError_t begun = cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal);
    step = 1;
    while (step != 2) std::this_thread::yield();
    const cudaError_t ended = cudaStreamEndCapture(captured.get(), &graph);
    SPMD_EQ(pe, static_cast<int>(begun), static_cast<int>(cudaSuccess));
    SPMD_EQ(pe, static_cast<int>(ended), static_cast<int>(cudaSuccess));
    if (graph) (void)cudaGraphDestroy(graph);
    SPMD_EQ(pe, gshmemx_bind_thread(nullptr), 0);
  });
  while (step != 1) std::this_thread::yield();
  for (std::uint64_t round = 1; round <= 5; ++round) {
    gshmemx_uint64_p_on_stream(memory.data(), round, pe.next(), used.get());
    gshmemx_barrier_all_on_stream(used.get());
    SPMD_EQ(pe, gshmemx_uint64_g_on_stream(memory.data(), pe.me(), used.get()), round);
    gshmemx_barrier_all_on_stream(used.get());
  }
  step = 2;
  other.join();
  pe.barrier();  // CUDA lets no thread of the process wait for a stream during a capture
  used.finish();
  pe.barrier();
}

#else

// Without CUDA they cannot be compiled.
#define GSHMEM_NO_STREAMS(NAME) \
  SPMD_TEST(NAME) { pe.skip(kNoStreams); }
GSHMEM_NO_STREAMS(a_graph_reaches_memory_by_which_the_heap_has_grown_since)
GSHMEM_NO_STREAMS(a_graph_of_calls_on_a_stream_can_be_launched_a_hundred_times)
GSHMEM_NO_STREAMS(
    a_graph_of_collectives_on_a_stream_can_be_launched_again_between_other_collectives)
GSHMEM_NO_STREAMS(calls_on_a_stream_return_before_its_kernel_has_ended)
GSHMEM_NO_STREAMS(streams_do_not_wait_for_each_other)
GSHMEM_NO_STREAMS(calls_on_a_stream_do_not_disturb_the_capture_of_another_thread)

#endif

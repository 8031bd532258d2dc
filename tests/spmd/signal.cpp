// Signals: set and add, waiting with every comparison, and the promise of put_signal that a signal
// is never visible before its payload.
#include "tests/spmd/spmd.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

struct SignalWaits {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* signals) const {
    const int next = (ctx.my_pe() + 1) % ctx.n_pes();
    constexpr std::uint64_t kBig = 0x8000000000000001u;  // unsigned comparison
    const auto set = [&](int i, std::uint64_t value) { ctx.signal({signals + i, value}, next); };
    const auto add = [&](int i, std::uint64_t value) {
      ctx.signal({signals + i, value, Signal::kAdd}, next);
    };
    // All begin at 10.
    set(0, 11);
    add(1, 1);
    set(2, kBig);
    set(3, 9);
    set(4, 3);
    add(5, static_cast<std::uint64_t>(0) - 8);
    set(6, 12);
    SPMD_EQ(log, ctx.signal_wait_until(signals + 0, Cmp::kEq, 11), 11u);
    SPMD_EQ(log, ctx.signal_wait_until(signals + 1, Cmp::kNe, 10), 11u);
    SPMD_EQ(log, ctx.signal_wait_until(signals + 2, Cmp::kGt, 10), kBig);
    SPMD_EQ(log, ctx.signal_wait_until(signals + 3, Cmp::kLe, 9), 9u);
    SPMD_EQ(log, ctx.signal_wait_until(signals + 4, Cmp::kLt, 9), 3u);
    SPMD_EQ(log, ctx.signal_wait_until(signals + 5, Cmp::kEq, 2), 2u);
    SPMD_EQ(log, ctx.signal_wait_until(signals + 6, Cmp::kGe, 12), 12u);
    SPMD_EQ(log, ctx.signal_wait_until(signals + 7, Cmp::kEq, 10), 10u);
    SPMD_EQ(log, ctx.signal_fetch(signals + 2), kBig);
  }
};

/// Uses the names of OpenSHMEM 1.6; the words begin at 10.
struct SetAndAdd {
  GSHMEM_FN void operator()(const LaunchContext&, Log log, std::uint64_t* signals) const {
    const int next = (gshmem_my_pe() + 1) % gshmem_n_pes();
    gshmem_signal_set(signals, 11, next);
    gshmem_signal_add(signals + 1, 5, next);
    gshmem_ctx_signal_set(GSHMEM_CTX_DEFAULT, signals + 2, 12, next);
    gshmem_ctx_signal_add(GSHMEM_CTX_DEFAULT, signals + 3, 6, next);
    SPMD_EQ(log, gshmem_signal_wait_until(signals, GSHMEM_CMP_NE, 10), 11u);
    SPMD_EQ(log, gshmem_signal_wait_until(signals + 1, GSHMEM_CMP_NE, 10), 15u);
    SPMD_EQ(log, gshmem_signal_wait_until(signals + 2, GSHMEM_CMP_NE, 10), 12u);
    SPMD_EQ(log, gshmem_signal_wait_until(signals + 3, GSHMEM_CMP_NE, 10), 16u);
  }
};

/// The sum that all PEs add to a word is there once, and is then reset.
struct CountAndReset {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint64_t* signal,
                            int rounds) const {
    const int n = ctx.n_pes();
    for (int round = 1; round <= rounds; ++round) {
      for (int pe = 0; pe < n; ++pe) ctx.signal({signal, 5, Signal::kAdd}, pe);
      const std::uint64_t all = 5 * static_cast<std::uint64_t>(n);
      SPMD_EQ(log, gshmem_signal_wait_until(signal, GSHMEM_CMP_GE, all), all);
      gshmemx_signal_counted_reset(signal);
      SPMD_EQ(log, gshmem_signal_fetch(signal), 0u);
      ctx.barrier_all(ctx.thread());
    }
  }
};

enum class Form { kBlocking, kNbi };

/// A ring: payload and signal to the next PE, which checks the payload as soon as it sees the
/// signal and answers, before the next round overwrites it.
struct SignalRing {
  static constexpr int kWords = 512;

  GSHMEM_FN static std::uint32_t word(std::uint64_t seed, int pe, int round, int i) {
    return static_cast<std::uint32_t>(
        mix(seed + static_cast<std::uint64_t>(pe * 100000 + round), static_cast<std::uint64_t>(i)));
  }

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint32_t* data,
                            std::uint64_t* signals, std::uint64_t seed, int rounds, Scope scope,
                            Form form) const {
    const int me = ctx.my_pe(), next = (me + 1) % ctx.n_pes();
    const int previous = (me + ctx.n_pes() - 1) % ctx.n_pes();
    std::uint32_t* source = data + kWords;
    std::uint64_t *arrived = signals, *answered = signals + 1;
    with_group(ctx, scope, [&](auto group) {
      for (int round = 1; round <= rounds; ++round) {
        const std::uint64_t now = static_cast<std::uint64_t>(round);
        // Small sizes are the likely race; a few of every round are large.
        const int count = static_cast<int>(mix(seed, now) % (round % 8 ? 9 : kWords)) + 1;
        for (int i = group.thread_rank(); i < count; i += group.size()) {
          source[i] = word(seed, me, round, i);
        }
        group.sync();
        // Set and add alternate and have the same effect.
        const Signal signal{arrived, round % 2 ? now : 1u, round % 2 ? Signal::kSet : Signal::kAdd};
        const std::size_t n = static_cast<std::size_t>(count);
        if (form == Form::kBlocking)
          ctx.put_signal(group, data, source, n, signal, next);
        else
          ctx.put_signal_nbi(group, data, source, n, signal, next);
        // Every thread waits itself: all must see the payload.
        SPMD_EQ(log, ctx.signal_wait_until(arrived, Cmp::kGe, now), now);
        for (int i = group.thread_rank(); i < count; i += group.size()) {
          SPMD_EQ(log, data[i], word(seed, previous, round, i), now);
        }
        ctx.quiet();
        group.sync();
        if (group.thread_rank() == 0) ctx.signal({answered, now}, previous);
        ctx.signal_wait_until(answered, Cmp::kGe, now);
        group.sync();
      }
    });
  }
};

LaunchShape ring_group(const Pe& pe, Scope scope) {
  if (scope == Scope::kThread) return {};
  if (scope == Scope::kWarp) return {.blocks = 1, .threads = pe.warp()};
  return {.blocks = 1, .threads = pe.on_gpu() ? 100u : 5u};
}

}  // namespace

SPMD_TEST(counted_signal_is_zero_after_its_reset) {
  SymmetricArray<std::uint64_t> signal(1);
  if (pe.c_api_in_kernels()) {
    pe.run({.blocks = 1, .threads = 1}, CountAndReset{}, signal.data(), pe.rounds(50));
  }
  pe.barrier();
  gshmemx_signal_op(signal.data(), 7, GSHMEM_SIGNAL_ADD, pe.next());
  pe.barrier();
  SPMD_EQ(pe, gshmem_signal_fetch(signal.data()), 7u);
  gshmemx_signal_counted_reset(signal.data());
  SPMD_EQ(pe, gshmem_signal_fetch(signal.data()), 0u);
  pe.barrier();
}

SPMD_TEST(signal_wait_until_knows_every_comparison) {
  SymmetricArray<std::uint64_t> signals(8);
  signals.write(std::vector<std::uint64_t>(8, 10), pe.me());
  pe.barrier();
  pe.run({}, SignalWaits{}, signals.data());
}

SPMD_TEST(signals_are_set_and_added_to_by_their_other_names) {
  if (!pe.c_api_in_kernels()) return pe.skip(kTwoPesOnAGpu);
  SymmetricArray<std::uint64_t> signals(4);
  signals.write(std::vector<std::uint64_t>(4, 10), pe.me());
  pe.barrier();
  pe.run({}, SetAndAdd{}, signals.data());
  pe.barrier();
}

SPMD_TEST(put_signal_shows_its_payload_before_its_signal) {
  SymmetricArray<std::uint32_t> data(2 * SignalRing::kWords);
  SymmetricArray<std::uint64_t> signals(2);
  for (const Scope scope : kScopes) {
    for (const Form form : {Form::kBlocking, Form::kNbi}) {
      signals.write(std::vector<std::uint64_t>(2, 0), pe.me());
      pe.barrier();
      pe.run(ring_group(pe, scope), SignalRing{}, data.data(), signals.data(), pe.seed(),
             pe.rounds(500), scope, form);
      pe.barrier();
    }
  }
}

SPMD_TEST(signals_of_all_pes_to_one_word_add_up) {
  SymmetricArray<std::uint64_t> word(1);
  for (int i = 0; i < 100; ++i) {
    for (int to = 0; to < pe.n(); ++to) {
      gshmemx_signal_op(word.data(), static_cast<std::uint64_t>(pe.me() + 1), GSHMEM_SIGNAL_ADD,
                        to);
    }
  }
  const auto expected = static_cast<std::uint64_t>(100 * pe.n() * (pe.n() + 1) / 2);
  SPMD_EQ(pe, gshmem_signal_wait_until(word.data(), GSHMEM_CMP_GE, expected), expected);
  SPMD_EQ(pe, gshmem_signal_fetch(word.data()), expected);
}

SPMD_TEST(put_signal_by_host_thread_shows_its_payload_before_its_signal) {
  constexpr std::size_t kBytes = 100;
  SymmetricArray<std::uint8_t> data(kBytes);
  SymmetricArray<std::uint64_t> signals(2);
  const int rounds = pe.rounds(200);
  for (int round = 1; round <= rounds; ++round) {
    const auto now = static_cast<std::uint64_t>(round);
    const std::vector<std::uint8_t> mine(kBytes, static_cast<std::uint8_t>(pe.me() + round));
    if (round % 2) {
      gshmem_putmem_signal(data.data(), mine.data(), kBytes, signals.data(), now, GSHMEM_SIGNAL_SET,
                           pe.next());
    } else {
      gshmem_uint8_put_signal_nbi(data.data(), mine.data(), kBytes, signals.data(), 1,
                                  GSHMEM_SIGNAL_ADD, pe.next());
      gshmem_quiet();
    }
    SPMD_EQ(pe, gshmem_signal_wait_until(signals.data(), GSHMEM_CMP_EQ, now), now);
    const auto theirs = static_cast<std::uint8_t>(pe.previous() + round);
    pe.equal_bytes(__LINE__, pe.read(data.data(), kBytes),
                   std::vector<std::uint8_t>(kBytes, theirs));
    gshmemx_signal_op(signals.data() + 1, now, GSHMEM_SIGNAL_SET, pe.previous());
    (void)gshmem_signal_wait_until(signals.data() + 1, GSHMEM_CMP_GE, now);
  }
}

namespace {

#if defined(__CUDACC__)
__global__ void keep_busy(long long clocks) {
  for (const long long begin = clock64(); clock64() - begin < clocks;) continue;
}
#endif

/// It clears flags as a program does: in the default stream, which may still be busy.
bool clear(const Pe& pe, void* memory, std::size_t bytes) {
#if defined(__CUDACC__)
  if (pe.on_gpu()) {
    keep_busy<<<1, 1>>>(200'000'000);  // a tenth of a second
    return cudaMemset(memory, 0, bytes) == cudaSuccess;
  }
#endif
  return pe.on_gpu() || std::memset(memory, 0, bytes) == memory;
}
bool default_stream_is_done(const Pe& pe) {
#if defined(__CUDACC__)
  if (pe.on_gpu()) return cudaStreamSynchronize(nullptr) == cudaSuccess;
#endif
  return !pe.on_gpu();
}

}  // namespace

SPMD_TEST(signals_after_a_host_barrier_survive_a_memset_before_it) {
  SymmetricArray<std::uint64_t> signal(1);
  SPMD_CHECK(pe, clear(pe, signal.data(), sizeof(std::uint64_t)));
  gshmem_barrier_all();
  gshmemx_signal_op(signal.data(), 7, GSHMEM_SIGNAL_SET, (pe.me() + 1) % pe.n());
  gshmem_barrier_all();
  SPMD_CHECK(pe, default_stream_is_done(pe));
  SPMD_EQ(pe, signal.to_vector(pe.me())[0], 7u);
}

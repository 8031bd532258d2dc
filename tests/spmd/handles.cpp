#include "tests/spmd/handles.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// Every handle transfers data to all PEs in turn, by every kind of put, announces it by a flag
/// after its own quiet or fence, and reads back what it wrote. The threads of the launch divide the
/// handles between them.
struct MoveByHandles {
  static constexpr int kWords = 20;
  /// Words per handle: those that each PE sends, that this one sends, and that it has read back.
  static std::size_t words(int n, int handles) {
    return static_cast<std::size_t>((n + 2) * kWords * handles);
  }
  static std::size_t flags(int n, int handles) { return static_cast<std::size_t>(2 * n * handles); }

  GSHMEM_FN static std::uint64_t value(int round, int k, int from, int i) {
    return mix(static_cast<std::uint64_t>(round * 64 + k), static_cast<std::uint64_t>(from + i));
  }
  GSHMEM_FN static void send(const Context& by, int kind, std::uint64_t* to,
                             const std::uint64_t* source, int pe) {
    if (kind == 0) {
      by.put(Thread{}, to, source, kWords, pe);
    } else if (kind == 1) {
      by.put_nbi(Thread{}, to, source, kWords, pe);
    } else if (kind == 2) {
      by.iput(Thread{}, to, source, {1, 1, kWords}, pe);
    } else {
      for (int i = 0; i < kWords; ++i) by.p(to + i, source[i], pe);
    }
  }
  GSHMEM_FN static void read_back(const Context& by, int kind, std::uint64_t* to,
                                  const std::uint64_t* source, int pe) {
    if (kind == 0) {
      by.get(Thread{}, to, source, kWords, pe);
    } else if (kind == 1) {
      by.get_nbi(Thread{}, to, source, kWords, pe);
      by.quiet();
    } else if (kind == 2) {
      by.iget(Thread{}, to, source, {1, 1, kWords}, pe);
    } else {
      for (int i = 0; i < kWords; ++i) to[i] = by.g(source + i, pe);
    }
  }

  GSHMEM_FN void one(const LaunchContext& ctx, Log log, const Context& by, int k,
                     std::uint64_t* data, std::uint64_t* flags, int rounds) const {
    const int me = ctx.my_pe(), n = ctx.n_pes();
    std::uint64_t *source = data + n * kWords, *back = source + kWords, *acks = flags + n;
    for (int round = 1; round <= rounds; ++round) {
      const std::uint64_t now = static_cast<std::uint64_t>(round);
      const int to = (me + round) % n, from = (me + n - round % n) % n, kind = (round + k) % 4;
      for (int i = 0; i < kWords; ++i) source[i] = value(round, k, me, i);
      send(by, kind, data + me * kWords, source, to);
      if (round % 2 == 0) {
        by.quiet();
      } else {
        by.fence();
      }
      by.p(flags + me, now, to);
      ctx.wait_until(flags + from, Cmp::kEq, now);
      for (int i = 0; i < kWords; ++i) {
        SPMD_EQ(log, data[from * kWords + i], value(round, k, from, i), now);
      }
      by.quiet();  // for the source of an nbi put, and for the data read back
      read_back(by, kind, back, data + me * kWords, to);
      for (int i = 0; i < kWords; ++i) SPMD_EQ(log, back[i], source[i], now);
      by.p(acks + me, now, from);
      ctx.wait_until(acks + to, Cmp::kEq, now);
    }
    by.quiet();
  }

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, Handles handles, std::uint64_t* data,
                            std::uint64_t* flags, int rounds) const {
    const int n = ctx.n_pes();
    const Share share = share_of(ctx, Scope::kThread);
    for (int k = share.index; k < handles.count; k += share.count) {
      one(ctx, log, ctx.on(handles.handle[k]), k, data + (n + 2) * kWords * k, flags + 2 * n * k,
          rounds);
    }
  }
};

/// Every old value of the counter is returned to one thread, and the other atomics store the
/// expected values.
struct CountByHandles {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, Handles handles,
                            std::uint32_t* counter, std::uint32_t* seen, std::uint64_t* bits,
                            int rounds) const {
    const Share share = share_of(ctx, Scope::kThread);
    for (int k = share.index; k < handles.count; k += share.count) {
      const Context by = ctx.on(handles.handle[k]);
      for (int round = 0; round < rounds; ++round) {
        const std::uint32_t old = by.atomic_fetch_add(counter, 1, 0);
        by.atomic_add(seen + old, 1, 0);
      }
      const int bit = ctx.my_pe() * handles.count + k;
      by.atomic_or(bits + bit / 64, std::uint64_t{1} << bit % 64, 0);
      by.quiet();
      std::uint64_t* mine = bits + 2 + k;
      by.atomic_set(mine, 7, ctx.my_pe());
      by.quiet();
      SPMD_EQ(log, by.atomic_swap(mine, 9, ctx.my_pe()), 7);
      SPMD_EQ(log, by.atomic_compare_swap(mine, 9, 11, ctx.my_pe()), 9);
      SPMD_EQ(log, by.atomic_fetch_xor(mine, 1, ctx.my_pe()), 11);
      SPMD_EQ(log, by.atomic_fetch(mine, ctx.my_pe()), 10);
    }
  }
};

/// A thread that sees the signal sees the payload, also of an nbi put.
struct SignalByHandles {
  static constexpr int kWords = 33;

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, Handles handles, std::uint64_t* data,
                            std::uint64_t* signals, int rounds, Scope scope) const {
    const int me = ctx.my_pe(), n = ctx.n_pes();
    const Share share = share_of(ctx, scope);
    with_group(ctx, scope, [&](auto group) {
      for (int k = share.index; k < handles.count; k += share.count) {
        const Context by = ctx.on(handles.handle[k]);
        std::uint64_t *in = data + (n + 1) * kWords * k, *source = in + n * kWords;
        std::uint64_t *sent = signals + 2 * n * k, *acks = sent + n;
        for (int round = 1; round <= rounds; ++round) {
          const std::uint64_t now = static_cast<std::uint64_t>(round);
          const int to = (me + round) % n, from = (me + n - round % n) % n;
          for (int i = group.thread_rank(); i < kWords; i += group.size()) {
            source[i] = MoveByHandles::value(round, k, me, i);
          }
          group.sync();
          const Signal signal{sent + me, now, Signal::kSet};
          if (round % 2 == 0) {
            by.put_signal(group, in + me * kWords, source, kWords, signal, to);
          } else {
            by.put_signal_nbi(group, in + me * kWords, source, kWords, signal, to);
          }
          if (group.thread_rank() == 0) {
            ctx.signal_wait_until(sent + from, Cmp::kEq, now);
            for (int i = 0; i < kWords; ++i) {
              SPMD_EQ(log, in[from * kWords + i], MoveByHandles::value(round, k, from, i), now);
            }
            by.signal({acks + me, now, Signal::kSet}, from);
            by.quiet();
            ctx.signal_wait_until(acks + to, Cmp::kEq, now);
          }
          group.sync();
        }
      }
    });
  }
};

struct PostToOwnQueues {
  GSHMEM_FN static std::uint64_t posted(const abi::DeviceState& state, int pe) {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < state.nic.per_pe; ++i) {
      sum += device::PublishedWord::end(
          device::load_acquire_gpu(&queue(state, pe, i).cursor()->ready));
    }
    return sum;
  }
  GSHMEM_FN static device::Queue queue(const abi::DeviceState& state, int pe, std::uint32_t i) {
    return device::Queue(state.nic.queues + static_cast<std::uint32_t>(pe) * state.nic.per_pe + i);
  }

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, Handles handles,
                            std::uint64_t* words, int pe) const {
    const std::uint64_t by_default = posted(ctx.state(), pe);
    for (int k = 0; k < handles.count; ++k) {
      std::uint64_t before[Handles::kMost];
      for (int j = 0; j < handles.count; ++j) {
        before[j] = posted(ctx.on(handles.handle[j]).state(), pe);
      }
      const Context by = ctx.on(handles.handle[k]);
      by.p(words + k, static_cast<std::uint64_t>(k + 1), pe);
      by.quiet();  // it posts a READ if PEs use several NICs
      // With an address vector it takes two entries.
      const abi::NicView& nic = by.state().nic;
      const unsigned own = (nic.vectors ? 2 : 1) + (nic.flags & abi::kNicFlush ? 1 : 0);
      for (int j = 0; j < handles.count; ++j) {
        const std::uint64_t after = posted(ctx.on(handles.handle[j]).state(), pe);
        SPMD_EQ(log, after - before[j], j == k ? own : 0u, static_cast<std::uint64_t>(k + 1));
      }
      const device::QueueCursor* cursor = queue(by.state(), pe, 0).cursor();
      const std::uint64_t published = device::load_acquire_gpu(&cursor->ready);
      SPMD_CHECK(
          log, device::load_acquire_gpu(&cursor->done) >= device::PublishedWord::target(published));
    }
    SPMD_EQ(log, posted(ctx.state(), pe), by_default);
  }
};

/// Returns the numbers of the queues to PE `pe`.
struct NumbersOf {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, Handles handles, std::uint32_t* numbers,
                            int pe) const {
    for (int k = 0; k < handles.count; ++k) {
      numbers[k] = PostToOwnQueues::queue(ctx.on(handles.handle[k]).state(), pe, 0).number();
    }
  }
};

}  // namespace

namespace gshmem::spmd {

void test_moves(Pe& pe, const Handles& handles, unsigned threads, int rounds) {
  SymmetricArray<std::uint64_t> data(MoveByHandles::words(pe.n(), handles.count));
  SymmetricArray<std::uint64_t> flags(MoveByHandles::flags(pe.n(), handles.count));
  pe.run({.blocks = 1, .threads = threads}, MoveByHandles{}, handles, data.data(), flags.data(),
         rounds_of(pe, rounds));
  pe.barrier();
}

void test_counts(Pe& pe, const Handles& handles, unsigned threads) {
  const int rounds = rounds_of(pe, 40), total = rounds * handles.count * pe.n();
  SymmetricArray<std::uint32_t> counter(1), seen(static_cast<std::size_t>(total));
  SymmetricArray<std::uint64_t> bits(2 + Handles::kMost);
  pe.run({.blocks = 1, .threads = threads}, CountByHandles{}, handles, counter.data(), seen.data(),
         bits.data(), rounds);
  pe.barrier();
  if (pe.me() == 0) {
    SPMD_EQ(pe, gshmem_uint32_g(counter.data(), 0), static_cast<std::uint32_t>(total));
    std::vector<std::uint32_t> counts(static_cast<std::size_t>(total));
    gshmem_uint32_get(counts.data(), seen.data(), counts.size(), 0);
    for (std::size_t i = 0; i < counts.size(); ++i) SPMD_EQ(pe, counts[i], 1u, i + 1);
    for (int bit = 0; bit < pe.n() * handles.count; ++bit) {
      const std::uint64_t word = gshmem_uint64_g(bits.data() + bit / 64, 0);
      SPMD_EQ(pe, word >> bit % 64 & 1, 1u, static_cast<std::uint64_t>(bit) + 1);
    }
  }
  pe.barrier();
}

void test_signals(Pe& pe, const Handles& handles, Scope scope) {
  const auto n = static_cast<std::size_t>(pe.n()), count = static_cast<std::size_t>(handles.count);
  SymmetricArray<std::uint64_t> data((n + 1) * count * SignalByHandles::kWords);
  SymmetricArray<std::uint64_t> signals(2 * n * count);
  pe.run(shape_of(pe, scope), SignalByHandles{}, handles, data.data(), signals.data(),
         rounds_of(pe, 40), scope);
  pe.barrier();
}

void test_own_queues(Pe& pe, const Handles& handles) {
  SymmetricArray<std::uint64_t> words(Handles::kMost);
  if (!pe.maps(pe.next())) {
    pe.run({}, PostToOwnQueues{}, handles, words.data(), pe.next());
  }
  pe.barrier();
  for (int k = 0; !pe.maps(pe.previous()) && k < handles.count; ++k) {
    SPMD_EQ(pe, gshmem_uint64_g(words.data() + k, pe.me()), static_cast<std::uint64_t>(k + 1));
  }
  pe.barrier();
}

std::vector<std::uint32_t> queue_numbers(Pe& pe, const Handles& handles) {
  SymmetricArray<std::uint32_t> numbers(Handles::kMost);
  if (pe.maps(pe.next())) return {};
  pe.run({}, NumbersOf{}, handles, numbers.data(), pe.next());
  std::vector<std::uint32_t> found(static_cast<std::size_t>(handles.count));
  gshmem_uint32_get(found.data(), numbers.data(), found.size(), pe.me());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace gshmem::spmd

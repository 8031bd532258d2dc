// Bodies that tests of contexts and of queue handles share: each works by the handles it is given,
// one per thread or group, so that the same checks run on contexts of any kind, on handles, and on
// the default. Included by context.cpp and qp.cpp.
#pragma once

#include "tests/spmd/spmd.h"

#include <algorithm>
#include <cstdlib>

namespace gshmem::spmd {

/// Handles for a kernel, by value.
struct Handles {
  static constexpr int kMost = 8;
  int count = 0;
  std::int32_t handle[kMost] = {};
};

/// Queue handles for as long as the object lives. Collective.
class OwnedQueues {
 public:
  OwnedQueues(Pe& pe, int count) : pe_(pe) {
    SPMD_EQ(pe, gshmemx_qp_create(count, &array_), 0);
    for (int i = 0; array_ && i < count; ++i) handles_.handle[handles_.count++] = array_[i];
  }
  OwnedQueues(const OwnedQueues&) = delete;
  ~OwnedQueues() {
    SPMD_EQ(pe_, gshmemx_qp_destroy(handles_.count, array_), 0);
    std::free(array_);
  }
  [[nodiscard]] const Handles& list() const { return handles_; }

 private:
  Pe& pe_;
  gshmemx_qp_handle_t* array_ = nullptr;
  Handles handles_;
};

/// Contexts for as long as the object lives, all with `options`. Collective when they are to have
/// queues of their own: those of handles that are gone.
class OwnedContexts {
 public:
  enum class Queues { kOwn, kAsTheyCome };
  OwnedContexts(Pe& pe, int count, long options, Queues queues) {
    if (queues == Queues::kOwn) OwnedQueues(pe, count);
    for (int i = 0; i < count; ++i) {
      gshmem_ctx_t ctx = GSHMEM_CTX_INVALID;
      SPMD_EQ(pe, gshmem_ctx_create(options, &ctx), 0);
      handles_.handle[handles_.count++] = ctx;
    }
  }
  OwnedContexts(const OwnedContexts&) = delete;
  ~OwnedContexts() {
    for (int i = 0; i < handles_.count; ++i) gshmem_ctx_destroy(handles_.handle[i]);
  }
  [[nodiscard]] const Handles& list() const { return handles_; }

 private:
  Handles handles_;
};

/// As Pe::rounds, but enough for every kind of transfer where few are the rule.
inline int rounds_of(const Pe& pe, int count) { return std::max(pe.rounds(count), 8); }

/// Every handle moves data to all PEs in turn, by every kind of put, tells by a flag behind its own
/// quiet or fence, and reads back what it wrote. Threads of the launch share the handles out.
struct MoveByHandles {
  static constexpr int kWords = 20;
  /// Per handle: what each PE sends, what this one sends and what it has read back.
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
      by.quiet();  // the source of an nbi put, and what is read back
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

/// `threads` threads per PE with the handles among them.
inline void test_moves(Pe& pe, const Handles& handles, unsigned threads, int rounds) {
  SymmetricArray<std::uint64_t> data(MoveByHandles::words(pe.n(), handles.count));
  SymmetricArray<std::uint64_t> flags(MoveByHandles::flags(pe.n(), handles.count));
  pe.run({.blocks = 1, .threads = threads}, MoveByHandles{}, handles, data.data(), flags.data(),
         rounds_of(pe, rounds));
  pe.barrier();
}

/// Fetching and other atomics of every handle on words of PE 0: every old value of the counter
/// comes to one thread, and the others leave what they should.
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

inline void test_counts(Pe& pe, const Handles& handles, unsigned threads) {
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

/// Every group puts with a signal by its handle, to all PEs in turn; who sees the signal sees the
/// payload, of an nbi one, too.
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

inline void test_signals(Pe& pe, const Handles& handles, Scope scope) {
  const auto n = static_cast<std::size_t>(pe.n()), count = static_cast<std::size_t>(handles.count);
  SymmetricArray<std::uint64_t> data((n + 1) * count * SignalByHandles::kWords);
  SymmetricArray<std::uint64_t> signals(2 * n * count);
  pe.run(shape_of(pe, scope), SignalByHandles{}, handles, data.data(), signals.data(),
         rounds_of(pe, 40), scope);
  pe.barrier();
}

/// What is posted by a handle is in its queues and in no other's, and complete behind its quiet.
struct PostToOwnQueues {
  GSHMEM_FN static std::uint64_t posted(const abi::DeviceState& state, int pe) {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < state.nic.per_pe; ++i) {
      sum += device::load_acquire_gpu(&queue(state, pe, i).cursor()->ready);
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
      by.quiet();
      for (int j = 0; j < handles.count; ++j) {
        const std::uint64_t after = posted(ctx.on(handles.handle[j]).state(), pe);
        SPMD_EQ(log, after - before[j], j == k ? 1u : 0u, static_cast<std::uint64_t>(k + 1));
      }
      const device::QueueCursor* cursor = queue(by.state(), pe, 0).cursor();
      SPMD_CHECK(log,
                 device::load_acquire_gpu(&cursor->done) > device::load_relaxed(&cursor->tail));
    }
    SPMD_EQ(log, posted(ctx.state(), pe), by_default);
  }
};

/// Only where the next PE is reached by queues.
inline void test_own_queues(Pe& pe, const Handles& handles) {
  if (!pe.on_network() || pe.maps(pe.next())) return;
  SymmetricArray<std::uint64_t> words(Handles::kMost);
  pe.run({}, PostToOwnQueues{}, handles, words.data(), pe.next());
  pe.barrier();
  for (int k = 0; k < handles.count; ++k) {
    SPMD_EQ(pe, gshmem_uint64_g(words.data() + k, pe.me()), static_cast<std::uint64_t>(k + 1));
  }
  pe.barrier();
}

}  // namespace gshmem::spmd

// Bursts: messages of a thread and of a warp arrive, whether they are sent one by one or together,
// by queues of their own, by shared ones and over mapped memory; a signal follows all of them.
#include "tests/spmd/handles.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// Every group sends a burst to each PE in turn, and announces it by the burst's signal, or by a
/// flag after a quiet of the context.
struct SendBursts {
  static constexpr int kSlots = 24;  ///< messages of a thread in a burst
  static constexpr int kWords = 4;   ///< words of a slot
  enum Kind { kFromHeap, kFromStack, kElement, kKinds };

  /// Words that each PE sends to this one, and that this one sends.
  static std::size_t words(int n, int handles, int width) {
    return static_cast<std::size_t>((n + 1) * handles * width * kSlots * kWords);
  }
  /// All threads of a group make the same kind of call; most are puts from the heap.
  GSHMEM_FN static Kind kind(int slot, std::uint64_t round) {
    const std::uint64_t kind = mix(round, static_cast<std::uint64_t>(slot)) % 12;
    return kind < kKinds ? static_cast<Kind>(kind) : kFromHeap;
  }
  /// Returns the number of words that the thread has for this slot, which may be none.
  GSHMEM_FN static int length(int slot, int rank, std::uint64_t round) {
    if (kind(slot, round) == kElement) return 1;
    return static_cast<int>(
        mix(round * 64 + static_cast<std::uint64_t>(slot), static_cast<std::uint64_t>(rank)) %
        (kWords + 1));
  }
  GSHMEM_FN static std::uint64_t value(int from, int at, std::uint64_t round) {
    return mix(round, static_cast<std::uint64_t>(from * 65536 + at));
  }

  template <class Group>
  GSHMEM_FN void put(Burst<Group>& burst, Kind kind, std::uint64_t* to, std::uint64_t* source,
                     std::uint64_t* copy, int length) const {
    if (kind == kElement) {
      burst.p(to, source[0]);
    } else if (kind == kFromStack) {
      for (int i = 0; i < length; ++i) copy[i] = source[i];
      burst.put_nbi(to, copy, static_cast<std::size_t>(length));
    } else {
      burst.put_nbi(to, source, static_cast<std::size_t>(length));
    }
  }

  template <class Group>
  GSHMEM_FN void one(const LaunchContext& ctx, Log log, Group group, int handle, int k, int handles,
                     std::uint64_t* data, std::uint64_t* flags, int rounds) const {
    const Context by = ctx.on(handle);
    const int me = ctx.my_pe(), n = ctx.n_pes();
    const int part = static_cast<int>(group.size()) * kSlots * kWords;
    const auto area = [&](int pe) { return data + (pe * handles + k) * part; };
    std::uint64_t *mine = flags + k * 2 * n, *acks = mine + n, *source = area(n);
    std::uint64_t copies[kSlots * kWords];  // a quiet comes before it changes
    for (int turn = 1; turn <= rounds; ++turn) {
      const std::uint64_t round = static_cast<std::uint64_t>(turn);
      const int to = (me + turn) % n, from = (me + n - turn % n) % n;
      const bool signals = turn % 3 != 0;
      {
        Burst<Group> burst(by, group, to);
        for (int slot = 0; slot < kSlots; ++slot) {
          const int at = (group.thread_rank() * kSlots + slot) * kWords;
          const int length = this->length(slot, group.thread_rank(), round);
          for (int i = 0; i < length; ++i) source[at + i] = value(me, at + i, round);
          put(burst, kind(slot, round), area(me) + at, source + at, copies + slot * kWords, length);
          if (mix(round, static_cast<std::uint64_t>(slot)) % 7 == 0) burst.ring();
        }
        if (signals) burst.signal({mine + me, round, Signal::kSet});
      }
      group.sync();
      if (!signals && group.thread_rank() == 0) {
        by.quiet();
        by.p(mine + me, round, to);
      }
      if (group.thread_rank() == 0) ctx.wait_until(mine + from, Cmp::kEq, round);
      group.sync();
      for (int slot = 0; slot < kSlots; ++slot) {
        const int at = (group.thread_rank() * kSlots + slot) * kWords;
        for (int i = 0; i < length(slot, group.thread_rank(), round); ++i) {
          SPMD_EQ(log, area(from)[at + i], value(from, at + i, round), round);
        }
      }
      group.sync();
      if (group.thread_rank() == 0) {
        by.quiet();
        ctx.p(acks + me, round, from);
        ctx.wait_until(acks + to, Cmp::kEq, round);
      }
      group.sync();
    }
    if (group.thread_rank() == 0) by.quiet();
  }

  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, Handles handles, bool warps,
                            std::uint64_t* data, std::uint64_t* flags, int rounds) const {
    if (warps) {
      one(ctx, log, Warp{}, handles.handle[0], 0, 1, data, flags, rounds);
    } else if (ctx.thread_rank() < handles.count) {
      const int k = ctx.thread_rank();
      one(ctx, log, Thread{}, handles.handle[k], k, handles.count, data, flags, rounds);
    }
  }
};

/// Tests one warp, or a thread for each handle at the same time.
void test_bursts(Pe& pe, const Handles& handles, bool warp) {
  const int users = warp ? 1 : handles.count, width = warp ? static_cast<int>(pe.warp()) : 1;
  SymmetricArray<std::uint64_t> data(SendBursts::words(pe.n(), users, width));
  SymmetricArray<std::uint64_t> flags(static_cast<std::size_t>(2 * pe.n() * users));
  const LaunchShape shape{.threads = warp ? pe.warp() : static_cast<unsigned>(users)};
  pe.run(shape, SendBursts{}, handles, warp, data.data(), flags.data(), rounds_of(pe, 30));
  pe.barrier();
}

/// Bursts of a warp to the next PE, one directly after the other: from a source that is reused
/// after a quiet of every thread, and of values. The threads synchronize only by the bursts.
struct SendOneBehindTheOther {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log, gshmem_ctx_t handle, std::uint64_t* dest,
                            std::uint64_t* source, int rounds) const {
    const Context by = ctx.on(handle);
    const Warp warp;
    const int width = warp.size(), lane = warp.thread_rank(), to = (ctx.my_pe() + 1) % ctx.n_pes();
    for (int round = 0; round < rounds; ++round) {
      const std::uint64_t value = static_cast<std::uint64_t>(round * width + lane + 1);
      std::uint64_t* slot = dest + 2 * round * width + lane;
      {
        Burst burst(by, warp, to);
        source[lane] = value;
        burst.put_nbi(slot, source + lane, 1);
        burst.ring();
        by.quiet();
      }
      Burst burst(by, warp, to);
      burst.p(slot + width, value);
    }
    by.quiet();
  }
};

Handles default_context() {
  Handles handles;
  handles.handle[handles.count++] = GSHMEM_CTX_DEFAULT;
  return handles;
}

}  // namespace

SPMD_TEST(bursts_of_threads_by_private_contexts_arrive_before_their_signal) {
  for (const long options : {GSHMEM_CTX_PRIVATE, GSHMEM_CTX_SERIALIZED}) {
    OwnedContexts contexts(pe, 3, options, OwnedContexts::Queues::kOwn);
    test_bursts(pe, contexts.list(), false);
  }
}

SPMD_TEST(bursts_of_a_warp_by_a_private_context_arrive_before_their_signal) {
  OwnedContexts contexts(pe, 1, GSHMEM_CTX_PRIVATE, OwnedContexts::Queues::kOwn);
  test_bursts(pe, contexts.list(), true);
}

SPMD_TEST(consecutive_bursts_of_a_warp_arrive) {
  OwnedContexts contexts(pe, 1, GSHMEM_CTX_PRIVATE, OwnedContexts::Queues::kOwn);
  const int rounds = 100, width = static_cast<int>(pe.warp());
  SymmetricArray<std::uint64_t> dest(static_cast<std::size_t>(2 * rounds * width));
  SymmetricArray<std::uint64_t> source(pe.warp());
  pe.run({.threads = pe.warp()}, SendOneBehindTheOther{}, contexts.list().handle[0], dest.data(),
         source.data(), rounds);
  pe.barrier();
  for (int i = 0; i < 2 * rounds * width; ++i) {
    const int expected = i / (2 * width) * width + i % width + 1;
    SPMD_EQ(pe, gshmem_uint64_g(dest.data() + i, pe.me()), static_cast<std::uint64_t>(expected),
            static_cast<std::uint64_t>(i));
  }
  pe.barrier();
}

SPMD_TEST(bursts_by_shared_queues_arrive_before_their_signal) {
  test_bursts(pe, default_context(), false);
  test_bursts(pe, default_context(), true);
  OwnedContexts contexts(pe, 2, 0, OwnedContexts::Queues::kOwn);
  test_bursts(pe, contexts.list(), false);
}

SPMD_TEST(bursts_of_host_threads_arrive) {
  OwnedContexts contexts(pe, 1, GSHMEM_CTX_PRIVATE, OwnedContexts::Queues::kOwn);
  SymmetricArray<std::uint64_t> words(40), flag(1);
  std::uint64_t source[40];
  for (std::uint64_t i = 0; i < 40; ++i) source[i] = mix(i, static_cast<std::uint64_t>(pe.me()));
  {
    Burst burst(context().on(contexts.list().handle[0]), Thread{}, pe.next());
    burst.put_nbi(words.data(), source, 20);
    for (std::uint64_t i = 20; i < 40; ++i) burst.p(words.data() + i, source[i]);
    burst.signal({flag.data(), 5, Signal::kAdd});
  }
  gshmem_signal_wait_until(flag.data(), GSHMEM_CMP_EQ, 5);
  for (std::uint64_t i = 0; i < 40; ++i) {
    SPMD_EQ(pe, gshmem_uint64_g(words.data() + i, pe.me()),
            mix(i, static_cast<std::uint64_t>(pe.previous())), i);
  }
  gshmem_ctx_quiet(contexts.list().handle[0]);
  pe.barrier();
}

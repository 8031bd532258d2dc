// Copies of blocks that have given shared memory: signals follow the payload, sources may be in
// shared memory, and memory that is released, or left to the next kernel, is not used. Bytes and
// alignments are tested by rma_align.cpp.
#include "tests/spmd/smem.h"

using namespace gshmem;
using namespace gshmem::spmd;

namespace {

/// More than the size from which any group uses shared memory.
constexpr std::size_t kSmemCopy = (64u << 10) + 4096 + 16;

/// One group puts to the next PE with a signal, from a source that it has just written, and reads
/// the data of the previous PE.
struct SignalledBySmem {
  std::uint8_t *source, *target, *host;
  std::uint64_t *signal, *read;
  std::uint64_t seed;
  Scope scope;
  int rounds;

  template <class Group>
  GSHMEM_FN void ring(const LaunchContext& ctx, Log log, const Group& group) const {
    const int me = ctx.my_pe(), n = ctx.n_pes(), next = (me + 1) % n, previous = (me + n - 1) % n;
    const bool first = group.thread_rank() == 0;
    const auto rank = static_cast<std::size_t>(group.thread_rank());
    const auto width = static_cast<std::size_t>(group.size());
    const auto byte = [&](int pe, std::uint64_t round, std::size_t i) {
      return pattern(mix(seed + static_cast<std::uint64_t>(pe), round), i);
    };
    for (std::uint64_t round = 1; round <= static_cast<std::uint64_t>(rounds); ++round) {
      const std::size_t bytes = kSmemCopy - round % 3 * 7;
      for (std::size_t i = rank; i < bytes; i += width) source[i] = byte(me, round, i);
      const Signal update{signal, round, Signal::kSet};
      if (round % 2 == 0) {
        ctx.put_signal(group, target, source, bytes, update, next);
      } else {
        ctx.put_signal_nbi(group, target, source, bytes, update, next);
      }
      if (first) ctx.signal_wait_until(signal, Cmp::kGe, round);
      group.sync();
      for (std::size_t i = rank; i < bytes; i += width)
        SPMD_EQ(log, target[i], byte(previous, round, i), round);
      group.sync();
      if (first) {
        ctx.quiet();
        ctx.p(read, round, previous);
        ctx.wait_until(read, Cmp::kGe, round);
      }
      group.sync();
    }
  }
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log) const {
    with_smem(ctx, log, host,
              [&] { with_group(ctx, scope, [&](auto group) { ring(ctx, log, group); }); });
  }
};

/// Puts bytes that the block has written to shared memory; it gives the memory that the library
/// needs for this, or none.
struct FromSmem {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint8_t* target,
                            std::uint8_t* host, Scope scope, bool gives) const {
    constexpr std::size_t kState = device::kSmemStateBytes;
    const int peer = (ctx.my_pe() + 1) % ctx.n_pes();
    std::uint8_t* const smem = block_smem(ctx, host);
    if (gives && ctx.thread_rank() == 0) ctx.give_smem(smem, kState);
    fill_bytes(ctx, smem, kState, kSmemBytes, static_cast<std::uint8_t>(0x30 + ctx.my_pe()));
    with_group(ctx, scope, [&](auto group) {
      ctx.put(group, target, smem + kState, kSmemBytes - kState, peer);
    });
    ctx.block().sync();
    fill_bytes(ctx, smem, kState, kSmemBytes, 0);
    ctx.quiet();
    ctx.block().sync();
    if (gives && ctx.thread_rank() == 0) ctx.release_smem();
    expect_bytes(ctx, log, smem, kState, kSmemBytes, 0);
  }
};

/// Memory that the block has taken back, or that an earlier kernel has given, is not used.
struct NotGiven {
  GSHMEM_FN void operator()(const LaunchContext& ctx, Log log, std::uint8_t* target,
                            const std::uint8_t* source, std::uint8_t* host, Scope scope) const {
    const int peer = (ctx.my_pe() + 1) % ctx.n_pes();
    const auto put = [&] {
      with_group(ctx, scope, [&](auto group) { ctx.put(group, target, source, kSmemCopy, peer); });
      ctx.fence();  // the next one stores to the same memory
      ctx.block().sync();
    };
    std::uint8_t* const smem = block_smem(ctx, host);
    const auto untouched = [&] {
      fill_bytes(ctx, smem, 0, kSmemBytes, 0x5c);
      put();
      expect_bytes(ctx, log, smem, 0, kSmemBytes, 0x5c);
    };
    untouched();
    for (const std::size_t at : {std::size_t{0}, kSmemGuard}) {  // one after the other is no error
      if (ctx.thread_rank() == 0) ctx.give_smem(smem + at, kSmemGiven);
      ctx.block().sync();
      put();
      if (ctx.thread_rank() == 0) ctx.release_smem();
      ctx.block().sync();
      untouched();
    }
    if (ctx.thread_rank() == 0) ctx.give_smem(smem, kSmemGiven);  // and does not take it back
    ctx.block().sync();
    put();
    ctx.quiet();
  }
};

std::vector<std::uint8_t> bytes_of(Pe& pe, int of, std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = pattern(mix(pe.seed(), static_cast<std::uint64_t>(of)), i);
  return bytes;
}

}  // namespace

SPMD_TEST(signal_of_a_put_by_given_shared_memory_follows_the_payload) {
  SymmetricArray<std::uint8_t> source(kSmemCopy), target(kSmemCopy), host(kSmemBytes);
  SymmetricArray<std::uint64_t> words(2);
  for (const Scope scope : kScopes) {
    const std::uint64_t zeros[2] = {};
    gshmem_putmem(words.data(), zeros, sizeof(zeros), pe.me());
    pe.barrier();
    pe.run(one_group(pe, scope),
           SignalledBySmem{source.data(), target.data(), host.data(), words.data(),
                           words.data() + 1, pe.seed(), scope, pe.rounds(6)});
    pe.barrier();
  }
}

SPMD_TEST(puts_from_shared_memory_arrive_and_free_it) {
  constexpr std::size_t kBytes = kSmemBytes - device::kSmemStateBytes;
  SymmetricArray<std::uint8_t> target(kBytes + 1), host(kSmemBytes);
  for (const Scope scope : kScopes) {
    for (const bool gives : {false, true}) {
      pe.write(target.data(), std::vector<std::uint8_t>(kBytes + 1, 0xee));
      pe.barrier();
      pe.run(one_group(pe, scope), FromSmem{}, target.data(), host.data(), scope, gives);
      pe.barrier();
      std::vector<std::uint8_t> expected(kBytes + 1,
                                         static_cast<std::uint8_t>(0x30 + pe.previous()));
      expected.back() = 0xee;
      pe.equal_bytes(__LINE__, pe.read(target.data(), kBytes + 1), expected);
      pe.barrier();
    }
  }
}

SPMD_TEST(shared_memory_is_used_only_while_it_is_given) {
  SymmetricArray<std::uint8_t> source(kSmemCopy), target(kSmemCopy), host(kSmemBytes);
  pe.write(source.data(), bytes_of(pe, pe.me(), kSmemCopy));
  for (const Scope scope : kScopes) {
    pe.write(target.data(), std::vector<std::uint8_t>(kSmemCopy, 0xee));
    pe.barrier();
    for (int i = 0; i < 2; ++i) {
      pe.run(one_group(pe, scope), NotGiven{}, target.data(), source.data(), host.data(), scope);
    }
    pe.barrier();
    pe.equal_bytes(__LINE__, pe.read(target.data(), kSmemCopy),
                   bytes_of(pe, pe.previous(), kSmemCopy));
    pe.barrier();
  }
}

SPMD_TEST(ask_smem_returns_the_sizes_of_shared_memory) {
  const int barriers = gshmemx_ask_smem(GSHMEMX_SMEM_BARRIERS_ONLY);
  const int least = gshmemx_ask_smem(GSHMEMX_SMEM_MINIMUM);
  SPMD_CHECK(pe, barriers > 0 && barriers < least);
  SPMD_CHECK(pe, least < gshmemx_ask_smem(GSHMEMX_SMEM_RECOMMENDED));
  SPMD_EQ(pe, barriers % 16, 0);
  // Host threads may call them, like kernels in CPU mode.
  SymmetricArray<std::uint8_t> memory(static_cast<std::size_t>(least));
  for (int i = 0; i < 2; ++i) {
    gshmemx_give_smem(memory.data(), memory.size());
    gshmemx_give_smem(memory.data(), memory.size());
    gshmemx_release_smem();
    gshmemx_release_smem();
  }
  SPMD_EQ(pe, gshmemx_last_fault(nullptr), 0);
  pe.barrier();
}

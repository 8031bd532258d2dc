// Puts and gets of bytes, for the programs that exist for both: how they are issued, how they
// complete, and whose data arrives. Included by bandwidth.h and latency.h.
#pragma once

#include "perftest/common/run.h"
#include "perftest/common/timing.h"

namespace perftest {

/// One group's part of a message.
struct Message {
  std::byte* dest;
  const std::byte* source;
  std::size_t bytes;
  int pe;
};

struct Puts {
  static int from(const Role& role) { return role.source; }
  template <class Group>
  GSHMEM_FN static void issue(const gshmem::LaunchContext& ctx, const Group& group,
                              const Message& m) {
    ctx.put_nbi(group, m.dest, m.source, m.bytes, m.pe);
  }
  /// Waits until it has arrived.
  template <class Group>
  GSHMEM_FN static void finish(const gshmem::LaunchContext& ctx, const Group& group,
                               const Message& m) {
    ctx.put(group, m.dest, m.source, m.bytes, m.pe);
    if (group.thread_rank() == 0) ctx.quiet();
    group.sync();
  }
};

struct Gets {
  static int from(const Role& role) { return role.target; }
  template <class Group>
  GSHMEM_FN static void issue(const gshmem::LaunchContext& ctx, const Group& group,
                              const Message& m) {
    ctx.get_nbi(group, m.dest, m.source, m.bytes, m.pe);
  }
  /// A get has stored the data that it loaded before the next one begins, so that none overlap.
  template <class Group>
  GSHMEM_FN static void finish(const gshmem::LaunchContext& ctx, const Group& group,
                               const Message& m) {
    ctx.get(group, m.dest, m.source, m.bytes, m.pe);
  }
};

/// The calling block gives its dynamic shared memory of `bytes` bytes to the library, and takes it
/// back.
GSHMEM_FN void give_smem([[maybe_unused]] const gshmem::LaunchContext& ctx,
                         [[maybe_unused]] std::size_t bytes) {
#if defined(__CUDA_ARCH__)
  extern __shared__ gshmem::device::Word16 dynamic_smem[];
  if (bytes == 0) return;
  if (ctx.thread_rank() == 0) ctx.give_smem(dynamic_smem, bytes);
  ctx.block().sync();
#endif
}
GSHMEM_FN void take_back_smem([[maybe_unused]] const gshmem::LaunchContext& ctx,
                              [[maybe_unused]] std::size_t bytes) {
#if defined(__CUDA_ARCH__)
  if (bytes == 0) return;
  ctx.block().sync();
  if (ctx.thread_rank() == 0) ctx.release_smem();
#endif
}

/// All groups transfer their share of the message repeatedly, and complete at the end.
template <class Moves, class Group>
struct MoveStream {
  Message message;
  std::size_t smem_bytes;  ///< shared memory that a block gives

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    const Slice slice = slice_of<Group>(ctx, message.bytes);
    const Message mine{message.dest + slice.begin, message.source + slice.begin, slice.bytes,
                       message.pe};
    give_smem(ctx, smem_bytes);
    for (unsigned i = 0; i < span.count; ++i) Moves::issue(ctx, Group{}, mine);
    complete<Group>(ctx);
    take_back_smem(ctx, smem_bytes);
  }
};

/// One group transfers the message, and repeats when that is complete.
template <class Moves, class Group>
struct MoveOneByOne {
  static constexpr unsigned kMaxThreads = kLatencyThreads<Group>;
  Message message;
  std::size_t smem_bytes;

  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    const Group group;
    give_smem(ctx, smem_bytes);
    for (unsigned i = 0; i < span.count; ++i) Moves::finish(ctx, group, message);
    take_back_smem(ctx, smem_bytes);
  }
};

/// Collective: measures Body<Moves, group of the scope> and checks the data that has arrived.
template <template <class, class> class Body, class Moves>
Measurement measure_moves(Bench& bench, Exchange& exchange, const std::string& scope,
                          gshmem::LaunchShape shape, std::size_t bytes) {
  if (bench.options().smem)
    shape.shared_bytes = static_cast<std::size_t>(gshmemx_ask_smem(GSHMEMX_SMEM_RECOMMENDED));
  const Role role = bench.role();
  const Message message{exchange.dest(), exchange.source(), bytes, role.target};
  exchange.prepare(bytes);
  Measurement measured;
  with_scope(scope, [&]<class Group>(Group) {
    measured = measure(bench, shape, timed_if(role.is_active()),
                       Body<Moves, Group>{message, shape.shared_bytes});
  });
  exchange.check(bytes, Moves::from(role));
  return measured;
}

}  // namespace perftest

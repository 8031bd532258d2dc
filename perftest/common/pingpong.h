// Ping-pong of a message between two PEs, as a template over how it is sent. The reply is the
// received data, so the data at the end has crossed the path twice. In addition to the measurement
// there is a run in which every message has other data and the receiver checks all of it. It
// detects data that arrives after its flag.
#pragma once

#include "perftest/common/latency.h"
#include "perftest/common/timing.h"

namespace perftest {

/// The data that both sides use. `inbox` and `flag` are symmetric.
struct PingPong {
  std::byte* outbox;
  std::byte* inbox;
  std::uint64_t* flag;  ///< number of the last message that has arrived
  std::size_t bytes;
  int partner;
  bool starts;
};

/// One exchange. Sender: `Sender::send(ctx, group, game, source, number)` puts the message and then
/// the flag.
template <class Sender, class Group>
GSHMEM_FN void play(const gshmem::LaunchContext& ctx, const Group& group, const PingPong& game,
                    std::uint64_t number) {
  if (game.starts) Sender::send(ctx, group, game, game.outbox, number);
  if (group.thread_rank() == 0) {
    ctx.signal_wait_until(game.flag, gshmem::Cmp::kGe, number);
  }
  group.sync();
  if (!game.starts) Sender::send(ctx, group, game, game.inbox, number);
}

template <class Sender, class Group>
struct PlayPingPong {
  PingPong game;
  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    const Group group;
    for (unsigned i = 0; i < span.count; ++i) {
      play<Sender>(ctx, group, game, span.first + i + 1);
    }
  }
};

/// A ping-pong with fresh data in every message; counts the bytes that came back wrong.
template <class Sender, class Group>
struct VerifyPingPong {
  PingPong game;
  std::uint64_t* wrong;

  GSHMEM_FN static std::byte byte_of(std::uint64_t number, std::size_t at) {
    return static_cast<std::byte>((number * 131 + at * 7 + (at >> 8)) & 0xff);
  }
  GSHMEM_FN void operator()(const gshmem::LaunchContext& ctx, Span span) const {
    const Group group;
    const std::size_t rank = static_cast<std::size_t>(group.thread_rank());
    const std::size_t width = static_cast<std::size_t>(group.size());
    std::uint64_t found = 0;
    for (unsigned i = 0; i < span.count; ++i) {
      const std::uint64_t number = span.first + i + 1;
      if (game.starts) {
        for (std::size_t at = rank; at < game.bytes; at += width) {
          game.outbox[at] = byte_of(number, at);
        }
        group.sync();
      }
      play<Sender>(ctx, group, game, number);
      if (!game.starts) continue;
      for (std::size_t at = rank; at < game.bytes; at += width) {
        if (game.inbox[at] != byte_of(number, at)) ++found;
      }
      group.sync();
    }
    if (found > 0) ctx.atomic_add(wrong, found, ctx.my_pe());
  }
};

/// The body of a ping-pong program.
template <class Sender>
void run_pingpong(Bench& bench) {
  constexpr unsigned kVerified = 20;
  const bool starts = bench.my_pe() < bench.n_pes() / 2;
  const Role role = bench.role();
  const int partner = starts ? role.target : role.source;
  const bool plays = partner >= 0;
  const Part part = !plays ? Part::kNone : starts ? Part::kTimed : Part::kSilent;
  Exchange exchange(bench, bench.options().max_size);
  gshmem::SymmetricArray<std::uint64_t> flag(1), wrong(1);
  run_latency(bench, 2,
              [&](const std::string& scope, const gshmem::LaunchShape& shape, std::size_t bytes) {
                const PingPong game{exchange.source(), exchange.dest(), flag.data(), bytes,
                                    partner,           starts};
                Measurement measured;
                with_scope(scope, [&]<class Group>(Group) {
                  run_once(bench, shape, plays, VerifyPingPong<Sender, Group>{game, wrong.data()},
                           kVerified);
                  exchange.prepare(bytes);
                  measured = measure(bench, shape, part, PlayPingPong<Sender, Group>{game});
                });
                const std::uint64_t bad = wrong.to_vector(bench.my_pe())[0];
                bench.agree(bad == 0 ? ""
                                     : "FAIL: wrong data: " + std::to_string(bad) +
                                           " bytes were seen before they had arrived");
                exchange.check(bytes, starts && plays ? bench.my_pe() : partner);
                return measured;
              });
}

[[nodiscard]] inline Program pingpong_program(const char* name, const char* summary,
                                              void (*run)(Bench&)) {
  Program program = latency_program(name, summary, run);
  program.groups = kSizes | kScope;
  program.least_pes = 2;
  return program;
}

}  // namespace perftest

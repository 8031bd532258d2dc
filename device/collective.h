// Collectives of a team (OpenSHMEM 1.5, section 9.9) by one group of every member, over the
// operations of rma.h and the team's sync. What is moved goes straight to where it belongs: the
// specification has every member's `dest` ready when any of them enters. The barrier at the end
// completes it, and says so.
//
// A reduction is made once, by pieces: member i combines piece i of all sources, in the order of
// the members, and gives the result to all. So all members get the same bits, and the same team
// gets them again; and where `dest` is `source`, a piece is read and overwritten by one member
// alone. Elements of PEs that are not mapped would come one round trip each: where there are enough
// of them, and `dest` is another array, all pieces of one member land there first.
#pragma once

#include "reduction.h"
#include "rma.h"
#include "sync.h"

namespace gshmem::device {

/// Calls `work(i, pe)` for all members, for each member beginning with another one.
template <class Work>
GSHMEM_FN void for_members(const abi::Team& team, const Work& work) {
  GSHMEM_NO_UNROLL
  for (int k = 0; k < team.n_pes; ++k) {
    const int i = team.my_pe + k < team.n_pes ? team.my_pe + k : team.my_pe + k - team.n_pes;
    work(i, team_pe(team, i));
  }
}
GSHMEM_FN char* part(void* array, int i, std::size_t bytes) {
  return static_cast<char*>(array) + static_cast<std::size_t>(i) * bytes;
}
GSHMEM_FN const char* part(const void* array, int i, std::size_t bytes) {
  return static_cast<const char*>(array) + static_cast<std::size_t>(i) * bytes;
}

/// What all collectives are given: arrays in the heap, and the bytes that one member gives to
/// another one. Made in memory, for the registers of the caller.
struct TeamCall {
  const State* state;
  const char* name;
  const abi::Team* team;
  void* dest;
  const void* source;
  std::size_t bytes;
  GSHMEM_FN int handle() const { return static_cast<int>(team->handle); }
};

/// A put, of nothing and to itself not made.
template <class Coop>
GSHMEM_FN void give(Coop coop, const TeamCall& call, void* dest, const void* source,
                    std::size_t bytes, int pe) {
  if (bytes == 0 || (dest == source && pe == call.state->my_pe)) return;
  put_nbi(coop, *call.state, dest, source, bytes, pe);
}
template <class Coop>
GSHMEM_FN int end_collective(Coop coop, const TeamCall& call) {
  return team_barrier(coop, *call.state, call.name, call.handle());
}

/// Part i of `source` goes to member i, to the part of `dest` that has this member's number.
template <class Coop>
GSHMEM_OUTLINE int alltoall(Coop coop, const TeamCall& call) {
  for_members(*call.team, [&](int i, int pe) {
    give(coop, call, part(call.dest, call.team->my_pe, call.bytes),
         part(call.source, i, call.bytes), call.bytes, pe);
  });
  return end_collective(coop, call);
}

/// `source` of member `root` goes to `dest` of all members.
template <class Coop>
GSHMEM_OUTLINE int broadcast(Coop coop, const TeamCall& call, int root) {
  if (call.team->my_pe == root) {
    for_members(*call.team,
                [&](int, int pe) { give(coop, call, call.dest, call.source, call.bytes, pe); });
  }
  return end_collective(coop, call);
}

/// `source` of every member goes to all, to the part of `dest` that has its number.
template <class Coop>
GSHMEM_OUTLINE int fcollect(Coop coop, const TeamCall& call) {
  for_members(*call.team, [&](int, int pe) {
    give(coop, call, part(call.dest, call.team->my_pe, call.bytes), call.source, call.bytes, pe);
  });
  return end_collective(coop, call);
}

/// Words [first, end) of the arrays, from all members to all members, by all threads of the group.
template <class W, class Coop, class Reducer>
GSHMEM_FN void reduce_words(Coop coop, const TeamCall& call, Reducer reducer, std::size_t first,
                            std::size_t end) {
  const abi::Team& team = *call.team;
  const W* const source = static_cast<const W*>(call.source);
  W* const dest = static_cast<W*>(call.dest);
  const std::size_t width = static_cast<std::size_t>(coop.size());
  GSHMEM_NO_UNROLL
  for (std::size_t at = first + static_cast<std::size_t>(coop.thread_rank()); at < end;
       at += width) {
    W sum = g(*call.state, source + at, team_pe(team, 0));
    GSHMEM_NO_UNROLL
    for (int i = 1; i < team.n_pes; ++i) {
      sum = reducer(sum, g(*call.state, source + at, team_pe(team, i)));
    }
    GSHMEM_NO_UNROLL
    for (int i = 0; i < team.n_pes; ++i) p(*call.state, dest + at, sum, team_pe(team, i));
  }
  meet_lanes(coop);
  coop.sync();
}

/// A member's share of `count`: the first ones have one more where it does not come out even.
struct Share {
  std::size_t first, end;
  GSHMEM_FN Share(std::size_t count, const abi::Team& team) {
    const std::size_t n = static_cast<std::size_t>(team.n_pes);
    const std::size_t me = static_cast<std::size_t>(team.my_pe), more = count % n;
    first = count / n * me + (me < more ? me : more);
    end = first + count / n + (me < more ? 1 : 0);
  }
};

/// By words of 16 bytes as far as the arrays allow, then by elements of W.
template <class W, class Coop, class Reducer>
GSHMEM_FN void reduce_by_words(Coop coop, const TeamCall& call, Reducer reducer) {
  const std::uintptr_t both =
      reinterpret_cast<std::uintptr_t>(call.dest) | reinterpret_cast<std::uintptr_t>(call.source);
  const std::size_t wide = both % sizeof(Word16) == 0 ? call.bytes / sizeof(Word16) : 0;
  const Share mine(wide, *call.team);
  reduce_words<Word16>(coop, call, reducer, mine.first, mine.end);
  constexpr std::size_t kLanes = sizeof(Word16) / sizeof(W);
  const Share rest(call.bytes / sizeof(W) - wide * kLanes, *call.team);
  reduce_words<W>(coop, call, reducer, wide * kLanes + rest.first, wide * kLanes + rest.end);
}

GSHMEM_FN bool maps_all(const State& state, const abi::Team& team) {
  GSHMEM_NO_UNROLL
  for (int i = 0; i < team.n_pes; ++i) {
    if (!is_mapped(state, team_pe(team, i))) return false;
  }
  return true;
}

/// Piece `my_pe` of all members' sources lands in this member's `dest`; what comes of it stays in
/// its own piece there.
template <class W, class Coop, class Reducer>
GSHMEM_OUTLINE int gather_and_reduce(Coop coop, const TeamCall& call, Reducer reducer,
                                     std::size_t words) {
  const abi::Team& team = *call.team;
  const std::size_t bytes = words * sizeof(W), width = static_cast<std::size_t>(coop.size());
  for_members(team, [&](int i, int pe) {
    if (i == team.my_pe) return;
    get_nbi(coop, *call.state, part(call.dest, i, bytes), part(call.source, team.my_pe, bytes),
            bytes, pe);
  });
  quiet(coop, *call.state);
  const auto piece = [&](int i) {
    return reinterpret_cast<const W*>(i == team.my_pe ? part(call.source, i, bytes)
                                                      : part(call.dest, i, bytes));
  };
  W* const result = reinterpret_cast<W*>(part(call.dest, team.my_pe, bytes));
  GSHMEM_NO_UNROLL
  for (std::size_t at = static_cast<std::size_t>(coop.thread_rank()); at < words; at += width) {
    W sum = load_relaxed(piece(0) + at);
    GSHMEM_NO_UNROLL
    for (int i = 1; i < team.n_pes; ++i) sum = reducer(sum, load_relaxed(piece(i) + at));
    store_relaxed(result + at, sum);
  }
  meet_lanes(coop);
  return team_sync(coop, *call.state, call.name, call.handle());  // nobody reads `dest` any more
}

/// As reduce_by_words, where some members are not mapped and `dest` is not `source`.
template <class W, class Coop, class Reducer>
GSHMEM_FN int reduce_by_pieces(Coop coop, const TeamCall& call, Reducer reducer) {
  const abi::Team& team = *call.team;
  const std::size_t count = call.bytes / sizeof(W), n = static_cast<std::size_t>(team.n_pes);
  const std::size_t words = count / n, left = count % n, me = static_cast<std::size_t>(team.my_pe);
  if (words != 0) {
    const int status = gather_and_reduce<W>(coop, call, reducer, words);
    if (status != 0) return status;
    const std::size_t bytes = words * sizeof(W);
    char* const result = part(call.dest, team.my_pe, bytes);
    for_members(team, [&](int, int pe) { give(coop, call, result, result, bytes, pe); });
  }
  const std::size_t first = words * n;
  reduce_words<W>(coop, call, reducer, first + (me < left ? me : left),
                  first + (me < left ? me + 1 : left));
  return 0;
}

/// Elements of the width of W, combined by `reducer`.
template <class W, class Coop, class Reducer>
GSHMEM_OUTLINE int reduce(Coop coop, const TeamCall& call, Reducer reducer) {
  int status = team_sync(coop, *call.state, call.name, call.handle());  // all sources are ready
  if (status != 0) return status;
  if (call.dest == call.source || maps_all(*call.state, *call.team)) {
    reduce_by_words<W>(coop, call, reducer);
  } else {
    status = reduce_by_pieces<W>(coop, call, reducer);
    if (status != 0) return status;
  }
  return end_collective(coop, call);
}

}  // namespace gshmem::device

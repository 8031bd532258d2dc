// Collectives of a team (OpenSHMEM 1.5, section 9.9) by one group of every member, over the
// operations of rma.h and the team's sync. What is moved goes straight to where it belongs: the
// specification has every member's `dest` ready when any of them enters. The barrier at the end
// completes it, and says so.
//
// A reduction is made once, by pieces: member i combines piece i of all sources, in the order of
// the members, and gives the result to all. So all members get the same bits, and the same team
// gets them again; and where `dest` is `source`, a piece is read and overwritten by one member
// alone. A scan is made likewise: every member gets what was combined when its turn came. Elements
// of PEs that are not mapped would come one round trip each: where there are enough of them, and
// `dest` is another array, all pieces of one member land there first.
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

/// As alltoall by elements of W, with strides between those of one array.
template <class W, class Coop>
GSHMEM_OUTLINE int alltoalls(Coop coop, const TeamCall& call, Strides strides) {
  const auto first = [&](int i, std::ptrdiff_t stride) {
    return static_cast<std::ptrdiff_t>(i) * static_cast<std::ptrdiff_t>(strides.nelems) * stride;
  };
  W* const dest = static_cast<W*>(call.dest) + first(call.team->my_pe, strides.dst);
  for_members(*call.team, [&](int i, int pe) {
    iput(coop, *call.state, dest, static_cast<const W*>(call.source) + first(i, strides.src),
         strides, pe);
  });
  return end_collective(coop, call);
}

/// Into the team's slot: how many bytes the members before this one give. By one thread, in rounds:
/// before round i the sum is that of 2^i members, of which this one is the last; it goes to the one
/// 2^i after this one (Hillis and Steele, "Data parallel algorithms", 1986).
GSHMEM_OUTLINE bool count_before(const TeamCall& call) {
  const abi::Team& team = *call.team;
  abi::SyncSlot* const slot = call.state->team_slots + team_index(team.handle);
  std::uint64_t sum = call.bytes;
  std::uint64_t* counted = slot->counted;
  GSHMEM_NO_UNROLL
  for (int distance = 1; distance < team.n_pes; distance *= 2, ++counted) {
    if (team.my_pe + distance < team.n_pes)
      p(*call.state, counted, abi::kCounted | sum, team_pe(team, team.my_pe + distance));
    if (team.my_pe < distance) continue;
    const auto is_told = [&] { return load_poll(counted) != 0; };
    if (!spin_until(*call.state, call.name, is_told, team_pe(team, team.my_pe - distance)))
      return false;
    sum += load_relaxed(counted) & ~abi::kCounted;
    store_relaxed(counted, std::uint64_t{0});  // the next collect is after a barrier
  }
  store_relaxed(&slot->first, sum - call.bytes);
  return true;
}

/// `source` of every member goes to all, one after the other; members may give different numbers of
/// bytes.
template <class Coop>
GSHMEM_OUTLINE int collect(Coop coop, const TeamCall& call) {
  const State& state = *call.state;
  const bool is_counted = coop.thread_rank() != 0 || count_before(call);
  meet_lanes(coop);
  if (coop.any(!is_counted)) return fault_code(state);
  coop.sync();
  const std::uint64_t first = load_relaxed(&state.team_slots[team_index(call.team->handle)].first);
  char* const to = static_cast<char*>(call.dest) + first;
  if (kChecks && call.bytes != 0 && !is_symmetric(state, to, call.bytes)) {
    (void)bad_argument(state, call.name, "dest", abi::Rule::kSymmetric, as_value(call.dest),
                       first + call.bytes);
    return GSHMEMX_ERROR_INVALID_VALUE;
  }
  for_members(*call.team, [&](int, int pe) { give(coop, call, to, call.source, call.bytes, pe); });
  return end_collective(coop, call);
}

/// What is left of a reduction, and with whom.
enum class Result {
  kForAll,
  kForOne,     ///< all of it with this member alone: its part is another one than those of others
  kInclusive,  ///< with every member, of those up to it
  kExclusive   ///< of those before it; zeros with the first one
};

/// Words [first, end) of the arrays, from all members, by all threads of the group.
template <Result kResult, class W, class Coop, class Reducer>
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
    if constexpr (kResult == Result::kInclusive) p(*call.state, dest + at, sum, team_pe(team, 0));
    if constexpr (kResult == Result::kExclusive) p(*call.state, dest + at, W{}, team_pe(team, 0));
    GSHMEM_NO_UNROLL
    for (int i = 1; i < team.n_pes; ++i) {
      const W more = g(*call.state, source + at, team_pe(team, i));
      if constexpr (kResult == Result::kExclusive) p(*call.state, dest + at, sum, team_pe(team, i));
      sum = reducer(sum, more);
      if constexpr (kResult == Result::kInclusive) p(*call.state, dest + at, sum, team_pe(team, i));
    }
    if constexpr (kResult == Result::kForOne) store_relaxed(dest + at, sum);
    if constexpr (kResult == Result::kForAll) {
      GSHMEM_NO_UNROLL
      for (int i = 0; i < team.n_pes; ++i) p(*call.state, dest + at, sum, team_pe(team, i));
    }
  }
  meet_lanes(coop);
  coop.sync();
}

/// A member's share of `count`: all of it, or of those of all members, of which the first ones have
/// one more where it does not come out even.
struct Share {
  std::size_t first, end;
  GSHMEM_FN Share(Result result, std::size_t count, const abi::Team& team) : first(0), end(count) {
    if (result == Result::kForOne) return;
    const std::size_t n = static_cast<std::size_t>(team.n_pes);
    const std::size_t me = static_cast<std::size_t>(team.my_pe), more = count % n;
    first = count / n * me + (me < more ? me : more);
    end = first + count / n + (me < more ? 1 : 0);
  }
};

/// By words of 16 bytes as far as the arrays allow, then by elements of W.
template <Result kResult, class W, class Coop, class Reducer>
GSHMEM_FN void reduce_by_words(Coop coop, const TeamCall& call, Reducer reducer) {
  const std::uintptr_t both =
      reinterpret_cast<std::uintptr_t>(call.dest) | reinterpret_cast<std::uintptr_t>(call.source);
  const std::size_t wide = both % sizeof(Word16) == 0 ? call.bytes / sizeof(Word16) : 0;
  const Share mine(kResult, wide, *call.team);
  reduce_words<kResult, Word16>(coop, call, reducer, mine.first, mine.end);
  constexpr std::size_t kLanes = sizeof(Word16) / sizeof(W);
  const Share rest(kResult, call.bytes / sizeof(W) - wide * kLanes, *call.team);
  reduce_words<kResult, W>(coop, call, reducer, wide * kLanes + rest.first,
                           wide * kLanes + rest.end);
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

/// As reduce_by_words with the result for all, where some members are not mapped and `dest` is not
/// `source`.
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
  reduce_words<Result::kForAll, W>(coop, call, reducer, first + (me < left ? me : left),
                                   first + (me < left ? me + 1 : left));
  return 0;
}

/// Elements of the width of W, combined by `reducer`.
template <class W, class Coop, class Reducer>
GSHMEM_OUTLINE int reduce(Coop coop, const TeamCall& call, Reducer reducer) {
  int status = team_sync(coop, *call.state, call.name, call.handle());  // all sources are ready
  if (status != 0) return status;
  if (call.dest == call.source || maps_all(*call.state, *call.team)) {
    reduce_by_words<Result::kForAll, W>(coop, call, reducer);
  } else {
    status = reduce_by_pieces<W>(coop, call, reducer);
    if (status != 0) return status;
  }
  return end_collective(coop, call);
}

/// The members' parts of that number, combined, go to this member; a part has `bytes`.
template <class W, class Coop, class Reducer>
GSHMEM_OUTLINE int reducescatter(Coop coop, const TeamCall& call, Reducer reducer) {
  const int status = team_sync(coop, *call.state, call.name, call.handle());
  if (status != 0) return status;
  TeamCall mine = call;
  mine.source = part(call.source, call.team->my_pe, call.bytes);
  reduce_by_words<Result::kForOne, W>(coop, mine, reducer);
  return end_collective(coop, call);
}

template <Result kResult, class W, class Coop, class Reducer>
GSHMEM_OUTLINE int scan(Coop coop, const TeamCall& call, Reducer reducer) {
  const int status = team_sync(coop, *call.state, call.name, call.handle());
  if (status != 0) return status;
  reduce_by_words<kResult, W>(coop, call, reducer);
  return end_collective(coop, call);
}

}  // namespace gshmem::device

// Collectives of a team (OpenSHMEM 1.5, section 9.9) by one group of every member, over the
// operations of rma.h and the team's sync. Those of few bytes between members that map each other
// are made by packets.h. What else is moved goes straight to where it belongs: the specification
// has every member's `dest` ready when any of them enters. The barrier at the end completes it.
//
// A reduction is made once, by pieces: member i combines piece i of all sources, in the order of
// the members, and gives the result to all. So all members get the same bits, and the same team
// gets them again; and where `dest` is `source`, a piece is read and overwritten by one member
// alone. In one shot every member combines all, in the same order. A scan is made likewise: every
// member gets what was combined when its turn came. Elements of PEs that are not mapped would come
// one round trip each: where there are enough of them, and `dest` is another array, all pieces of
// one member land there first.
#pragma once

#include "packets.h"
#include "reduction.h"

namespace gshmem::device {

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
  if (call.goes_by_packets(coop, abi::Limit::kAlltoallPackets))
    return by_packets(coop, call, call.bytes, MovePackets{});
  for_members(*call.team, [&](int i, int pe) {
    give(coop, call, part(call.dest, call.team->my_pe, call.bytes),
         part(call.source, i, call.bytes), call.bytes, pe);
  });
  return end_collective(coop, call);
}

/// `source` of member `root` goes to `dest` of all members.
template <class Coop>
GSHMEM_OUTLINE int broadcast(Coop coop, const TeamCall& call, int root) {
  if (call.goes_by_packets(coop, abi::Limit::kBroadcastPackets))
    return by_packets(coop, call, 0, BroadcastPackets{root}, call.team->my_pe == root);
  if (call.team->my_pe == root) {
    for_members(*call.team,
                [&](int, int pe) { give(coop, call, call.dest, call.source, call.bytes, pe); });
  }
  return end_collective(coop, call);
}

/// `source` of every member goes to all, to the part of `dest` that has its number.
template <class Coop>
GSHMEM_OUTLINE int fcollect(Coop coop, const TeamCall& call) {
  if (call.goes_by_packets(coop, abi::Limit::kFcollectPackets))
    return by_packets(coop, call, 0, MovePackets{});
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

/// An element of member i; and one to it. Out of line, for the registers of the loops.
template <class W>
GSHMEM_OUTLINE W take_element(const TeamCall& call, const W* source, int i) {
  return g(*call.state, source, team_pe(*call.team, i));
}
template <class W>
GSHMEM_OUTLINE void give_element(const TeamCall& call, W* dest, W value, int i) {
  p(*call.state, dest, value, team_pe(*call.team, i));
}

/// What a reduction by reduce_words keeps in local memory, for the registers of what it calls.
template <class W>
struct ReduceWork {
  std::size_t at, end;
  W sum;
  int i;
};
/// Words [first, end) of the arrays, from all members, by all threads of the group.
template <Result kResult, class W, class Coop, class Reducer>
GSHMEM_FN void reduce_words(Coop coop, const TeamCall& call, Reducer reducer, std::size_t first,
                            std::size_t end) {
  const auto source = [&](std::size_t at) { return static_cast<const W*>(call.source) + at; };
  const auto dest = [&](std::size_t at) { return static_cast<W*>(call.dest) + at; };
  ReduceWork<W> work{first + static_cast<std::size_t>(coop.thread_rank()), end, {}, 0};
  GSHMEM_NO_UNROLL
  for (; work.at < work.end; work.at += static_cast<std::size_t>(coop.size())) {
    GSHMEM_NO_UNROLL
    for (work.i = 0; work.i < call.team->n_pes; ++work.i) {
      const W more = take_element(call, source(work.at), work.i);
      keep_in_memory(work);
      const W before = work.sum;
      work.sum = work.i == 0 ? more : reducer(before, more);
      if constexpr (kResult == Result::kExclusive)
        give_element(call, dest(work.at), work.i == 0 ? W{} : before, work.i);
      if constexpr (kResult == Result::kInclusive)
        give_element(call, dest(work.at), work.sum, work.i);
      keep_in_memory(work);
    }
    if constexpr (kResult == Result::kForOne) store_relaxed(dest(work.at), work.sum);
    if constexpr (kResult == Result::kForAll) {
      GSHMEM_NO_UNROLL
      for (work.i = 0; work.i < call.team->n_pes; ++work.i) {
        give_element(call, dest(work.at), work.sum, work.i);
        keep_in_memory(work);
      }
    }
  }
  meet_lanes(coop);
  coop.sync();
}

/// As reduce_words, with the result for all or for one, where all members map each other. A thread
/// has four words of a member in flight; those beyond the end are its first one again.
template <Result kResult, class W, class Coop, class Reducer>
GSHMEM_FN void reduce_mapped_words(Coop coop, const TeamCall& call, Reducer reducer,
                                   std::size_t first, std::size_t end) {
  constexpr std::size_t kAtOnce = 4;
  const State& state = *call.state;
  const abi::Team& team = *call.team;
  const std::size_t width = static_cast<std::size_t>(coop.size());
  GSHMEM_NO_UNROLL
  for (std::size_t at = first + static_cast<std::size_t>(coop.thread_rank()); at < end;
       at += kAtOnce * width) {
    W sum[kAtOnce];
    GSHMEM_NO_UNROLL
    for (int i = 0; i < team.n_pes; ++i) {
      const W* const from =
          peer_address(state, static_cast<const W*>(call.source) + at, team_pe(team, i));
      W word[kAtOnce];
      for (std::size_t k = 0; k < kAtOnce; ++k) {
        word[k] = load_relaxed(from + (at + k * width < end ? k * width : 0));
      }
      for (std::size_t k = 0; k < kAtOnce; ++k)
        sum[k] = i == 0 ? word[k] : reducer(sum[k], word[k]);
    }
    const auto store = [&](int pe) {
      W* const to = peer_address(state, static_cast<W*>(call.dest) + at, pe);
      for (std::size_t k = 0; k < kAtOnce && at + k * width < end; ++k)
        store_relaxed(to + k * width, sum[k]);
    };
    if constexpr (kResult == Result::kForOne) {
      store(state.my_pe);
    } else {
      GSHMEM_NO_UNROLL
      for (int i = 0; i < team.n_pes; ++i) store(team_pe(team, i));
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

/// Whether memory is that of members that map each other.
enum class Reach { kAny, kMapped };

/// By words of 16 bytes as far as the arrays allow, then by elements of W.
template <Result kResult, class W, Reach kReach = Reach::kAny, class Coop, class Reducer>
GSHMEM_OUTLINE void reduce_by_words(Coop coop, const TeamCall& call, Reducer reducer) {
  const std::uintptr_t both =
      reinterpret_cast<std::uintptr_t>(call.dest) | reinterpret_cast<std::uintptr_t>(call.source);
  std::size_t wide = both % sizeof(Word16) == 0 ? call.bytes / sizeof(Word16) : 0;
  const Share mine(kResult, wide, *call.team);
  const auto combine = [&](auto word, std::size_t from, std::size_t to) {
    if constexpr (kReach == Reach::kMapped) {
      reduce_mapped_words<kResult, decltype(word)>(coop, call, reducer, from, to);
    } else {
      reduce_words<kResult, decltype(word)>(coop, call, reducer, from, to);
    }
  };
  combine(Word16{}, mine.first, mine.end);
  keep_in_memory(wide);
  constexpr std::size_t kLanes = sizeof(Word16) / sizeof(W);
  const Share rest(kResult, call.bytes / sizeof(W) - wide * kLanes, *call.team);
  combine(W{}, wide * kLanes + rest.first, wide * kLanes + rest.end);
}

/// Pieces of `words` elements of W, one for each member; `left` elements remain. Every step of a
/// reduction by pieces has its own, so that no step keeps registers for another one.
template <class W>
struct Pieces {
  std::size_t words, left;
  GSHMEM_FN explicit Pieces(const TeamCall& call) {
    const std::size_t n = static_cast<std::size_t>(call.team->n_pes);
    words = call.bytes / sizeof(W) / n;
    left = call.bytes / sizeof(W) % n;
  }
  GSHMEM_FN std::size_t bytes() const { return words * sizeof(W); }
};

/// Piece `my_pe` of all members' sources lands in this member's `dest`.
template <class W, class Coop>
GSHMEM_OUTLINE void take_pieces(Coop coop, const TeamCall& call) {
  for_members(*call.team, [&](int i, int pe) {
    const std::size_t bytes = Pieces<W>(call).bytes();
    if (i == call.team->my_pe) return;
    get_nbi(coop, *call.state, part(call.dest, i, bytes),
            part(call.source, call.team->my_pe, bytes), bytes, pe);
  });
  quiet(coop, *call.state);
}

/// What comes of them stays in this member's own piece there.
template <class W, class Coop, class Reducer>
GSHMEM_OUTLINE void combine_pieces(Coop coop, const TeamCall& call, Reducer reducer) {
  const abi::Team& team = *call.team;
  const Pieces<W> pieces(call);
  const std::size_t bytes = pieces.bytes(), width = static_cast<std::size_t>(coop.size());
  const auto piece = [&](int i) {
    return reinterpret_cast<const W*>(i == team.my_pe ? part(call.source, i, bytes)
                                                      : part(call.dest, i, bytes));
  };
  W* const result = reinterpret_cast<W*>(part(call.dest, team.my_pe, bytes));
  GSHMEM_NO_UNROLL
  for (std::size_t at = static_cast<std::size_t>(coop.thread_rank()); at < pieces.words;
       at += width) {
    W sum = load_relaxed(piece(0) + at);
    GSHMEM_NO_UNROLL
    for (int i = 1; i < team.n_pes; ++i) sum = reducer(sum, load_relaxed(piece(i) + at));
    store_relaxed(result + at, sum);
  }
  meet_lanes(coop);
}

template <class W, class Coop>
GSHMEM_OUTLINE void give_pieces(Coop coop, const TeamCall& call) {
  for_members(*call.team, [&](int, int pe) {
    const std::size_t bytes = Pieces<W>(call).bytes();
    char* const result = part(call.dest, call.team->my_pe, bytes);
    give(coop, call, result, result, bytes, pe);
  });
}

/// As reduce_by_words with the result for all, where some members are not mapped and `dest` is not
/// `source`.
template <class W, class Coop, class Reducer>
GSHMEM_OUTLINE int reduce_by_pieces(Coop coop, const TeamCall& call, Reducer reducer) {
  if (Pieces<W>(call).words != 0) {
    take_pieces<W>(coop, call);
    combine_pieces<W>(coop, call, reducer);
    // Nobody reads `dest` any more.
    const int status = team_sync(coop, *call.state, call.name, call.handle());
    if (status != 0) return status;
    give_pieces<W>(coop, call);
  }
  const Pieces<W> pieces(call);
  const std::size_t first = pieces.words * static_cast<std::size_t>(call.team->n_pes);
  const std::size_t me = static_cast<std::size_t>(call.team->my_pe), left = pieces.left;
  reduce_words<Result::kForAll, W>(coop, call, reducer, first + (me < left ? me : left),
                                   first + (me < left ? me + 1 : left));
  return 0;
}

/// Elements of the width of W, combined by `reducer`.
template <class W, class Coop, class Reducer>
GSHMEM_OUTLINE int reduce(Coop coop, const TeamCall& call, Reducer reducer) {
  if (call.goes_by_packets(coop, abi::Limit::kReducePackets))
    return by_packets(coop, call, 0, CombinePackets<PacketUnit<W>, Reducer>{reducer});
  int status = team_sync(coop, *call.state, call.name, call.handle());  // all sources are ready
  if (status != 0) return status;
  if (call.team->mapped != 0) {
    if (call.dest != call.source && call.within(abi::Limit::kReduceOneShot)) {
      reduce_by_words<Result::kForOne, W, Reach::kMapped>(coop, call, reducer);
    } else {
      reduce_by_words<Result::kForAll, W, Reach::kMapped>(coop, call, reducer);
    }
  } else if (call.dest == call.source) {
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
  if (call.goes_by_packets(coop, abi::Limit::kReducePackets))
    return by_packets(coop, call, call.bytes, CombinePackets<PacketUnit<W>, Reducer>{reducer});
  const int status = team_sync(coop, *call.state, call.name, call.handle());
  if (status != 0) return status;
  TeamCall mine = call;
  mine.source = part(call.source, call.team->my_pe, call.bytes);
  if (call.team->mapped != 0) {
    reduce_by_words<Result::kForOne, W, Reach::kMapped>(coop, mine, reducer);
  } else {
    reduce_by_words<Result::kForOne, W>(coop, mine, reducer);
  }
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

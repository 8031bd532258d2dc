// Collectives of a team (OpenSHMEM 1.5, section 9.9) by one group of every member, on top of rma.h
// and the team's sync. packets.h implements those of few bytes between members that map each other,
// hierarchical.h those of many bytes between hosts. All other data is put directly to its
// destination: the specification guarantees that every member's `dest` is ready when any member
// enters. The barrier at the end completes it.
//
// A reduction computes each element once, in chunks: member i combines chunk i of all sources, in
// the order of the members, and puts the result to all. So all members get the same bits, and so
// does a repetition by the same team. If `dest` is `source`, one member alone reads and overwrites
// a chunk. In one shot every member combines everything, in the same order. In a scan, member i
// combines chunk i one source after the other, and puts each intermediate result to the member
// whose result it is. A scan by packets combines them at every member. Data of PEs that are not
// mapped takes round trips. If `dest` is another array than `source`, and large enough, all chunks
// of one member are first put there.
#pragma once

#include "combine.h"
#include "hierarchical.h"
#include "packets.h"

namespace gshmem::device {

/// Algorithms by which a team executes a call.
enum class Algorithm {
  kPackets,     ///< flags in the data (packets.h)
  kDirect,      ///< data is put to its destination, followed by a barrier
  kLevels,      ///< inside of hosts and between them (hierarchical.h)
  kOneShot,     ///< every member combines everything that it receives, by load and store
  kTwoShots,    ///< member i combines chunk i for all, by load and store
  kChunks,      ///< kTwoShots, but chunks of members that are not mapped are put to `dest` first
  kWords,       ///< word by word, or by as many words as a scratch slot holds
  kGrid,        ///< by many blocks (grid.h)
  kGridOneShot  ///< kGrid, but a reduction in one shot, or a broadcast by the root alone
};
inline constexpr int kAlgorithms = 9;

/// Returns the algorithm of many blocks for a call that does not use packets.
template <CallKind kKind>
GSHMEM_FN Algorithm grid_algorithm_of(const TeamCall& call) {
  const bool is_small = call.within(abi::Limit::kGridOneShot);
  if constexpr (kKind == CallKind::kReduce) {
    if (is_small && call.dest != call.source) return Algorithm::kGridOneShot;
  } else if constexpr (kKind == CallKind::kBroadcast) {
    if (is_small || call.team->n_pes <= 2) return Algorithm::kGridOneShot;
  }
  return Algorithm::kGrid;
}

/// Chooses by operation, scope, topology and size. Calls use this function, and gshmem-info prints
/// its result. All members make the same choice. `element_bytes` is for reductions.
template <CallKind kKind, class Coop>
GSHMEM_FN Algorithm algorithm_of(Coop coop, const TeamCall& call, std::size_t element_bytes = 1) {
  constexpr bool kHasGrid = kKind == CallKind::kAlltoall || kKind == CallKind::kBroadcast ||
                            kKind == CallKind::kFcollect || kKind == CallKind::kReduce ||
                            kKind == CallKind::kReducescatter;
  if constexpr (std::is_same_v<Coop, ManyBlocks> && kHasGrid) {
    if (call.goes_by_grid()) {
      if (call.within(abi::Limit::kGridPackets)) return Algorithm::kPackets;
      return grid_algorithm_of<kKind>(call);
    }
  }
  if constexpr (kKind == CallKind::kAlltoall) {
    if (call.goes_by_packets(coop, abi::Limit::kAlltoallPackets)) return Algorithm::kPackets;
  } else if constexpr (kKind == CallKind::kBroadcast) {
    if (call.goes_by_packets(coop, abi::Limit::kBroadcastPackets)) return Algorithm::kPackets;
    if (call.goes_in_levels()) return Algorithm::kLevels;
  } else if constexpr (kKind == CallKind::kFcollect) {
    if (call.goes_by_packets(coop, abi::Limit::kFcollectPackets)) return Algorithm::kPackets;
    if (call.goes_in_levels()) return Algorithm::kLevels;
  } else if constexpr (kKind == CallKind::kReduce) {
    if (call.goes_by_packets(coop, abi::Limit::kReducePackets)) return Algorithm::kPackets;
    if (call.goes_in_levels() && has_room(call, element_bytes)) return Algorithm::kLevels;
    const bool in_place = call.dest == call.source;
    if (call.team->mapped != 0) {
      // A thread or warp has fewer words in flight than a block: two shots pay from fewer bytes on.
      constexpr int kTimes = std::is_base_of_v<Thread, Coop> ? 64
                             : std::is_base_of_v<Warp, Coop> ? 8
                                                             : 1;
      if (!in_place && call.within(abi::Limit::kReduceOneShot, kTimes)) return Algorithm::kOneShot;
      return Algorithm::kTwoShots;
    }
    return in_place ? Algorithm::kWords : Algorithm::kChunks;
  } else if constexpr (kKind == CallKind::kReducescatter) {
    if (call.goes_by_packets(coop, abi::Limit::kReducePackets)) return Algorithm::kPackets;
    return call.team->mapped != 0 ? Algorithm::kOneShot : Algorithm::kWords;
  } else if constexpr (kKind == CallKind::kInscan || kKind == CallKind::kExscan) {
    if (call.goes_by_packets(coop, abi::Limit::kReducePackets)) return Algorithm::kPackets;
    return Algorithm::kWords;
  }
  return Algorithm::kDirect;
}

// The functions that choose the algorithm are inline, and call nothing after the function that does
// the work. ptxas adds the registers that are live across calls to those of the kernel. Moreover, a
// call of few bytes by a block is 0.3 us faster than with one more call in between (two H100s,
// alltoall of 8 bytes: 3.4 instead of 3.7).

/// Puts part i of the source to member i, to the part of `dest` with this member's number.
template <class Coop>
GSHMEM_OUTLINE int alltoall_by_puts(Coop coop, const TeamCall& call) {
  for_members(*call.team, [&](int i, int pe) {
    put_to(coop, call, part(call.dest, call.team->my_pe, call.bytes),
           part(call.source, i - call.team->my_pe, call.bytes), call.bytes, pe);
  });
  return end_collective(coop, call);
}
template <class Coop>
GSHMEM_FN int alltoall(Coop coop, const TeamCall& call) {
  if (algorithm_of<CallKind::kAlltoall>(coop, call) == Algorithm::kPackets)
    return by_packets<Give::kParts>(coop, call, MovePackets{});
  return alltoall_by_puts(coop, call);
}

/// Puts `source` of member `root` to `dest` of all members.
template <class Coop>
GSHMEM_OUTLINE int broadcast_by_puts(Coop coop, const TeamCall& call, int root) {
  if (call.team->my_pe == root) put_to_members(coop, call);
  return end_collective(coop, call);
}
template <class Coop>
GSHMEM_FN int broadcast(Coop coop, const TeamCall& call, int root) {
  const Algorithm how = algorithm_of<CallKind::kBroadcast>(coop, call);
  if (how == Algorithm::kPackets)
    return by_packets<Give::kWhole>(coop, call, BroadcastPackets{root}, call.team->my_pe == root);
  if (how == Algorithm::kLevels) return broadcast_in_levels(coop, call, root);
  return broadcast_by_puts(coop, call, root);
}

/// Puts `source` of every member to all, to the part of `dest` with its number.
template <class Coop>
GSHMEM_OUTLINE int fcollect_by_puts(Coop coop, const TeamCall& call) {
  TeamCall mine = call;
  mine.dest = part(call.dest, call.team->my_pe, call.bytes);
  keep_in_memory(mine);
  put_to_members(coop, mine);
  return end_collective(coop, mine);
}
template <class Coop>
GSHMEM_FN int fcollect(Coop coop, const TeamCall& call) {
  const Algorithm how = algorithm_of<CallKind::kFcollect>(coop, call);
  if (how == Algorithm::kPackets) return by_packets<Give::kWhole>(coop, call, MovePackets{});
  if (how == Algorithm::kLevels) return fcollect_in_levels(coop, call);
  return fcollect_by_puts(coop, call);
}

/// Does what alltoall does for elements of W, with strides between those of one array.
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

/// Stores into the team's slot how many bytes the members before this one contribute. It runs on
/// one thread, in rounds. Before round i the sum covers 2^i members, of which this one is the last.
/// In the round the sum is put to the member 2^i after this one (Hillis and Steele, "Data parallel
/// algorithms", 1986).
GSHMEM_OUTLINE bool count_before(const TeamCall& call) {
  const abi::Team& team = *call.team;
  abi::SyncSlot* const slot = slot_of(call);
  std::uint64_t sum = call.bytes;
  std::uint64_t* counted = slot->counted;
  GSHMEM_NO_UNROLL
  for (int distance = 1; distance < team.n_pes; distance *= 2, ++counted) {
    if (team.my_pe + distance < team.n_pes)
      p(*call.state, counted, abi::kCounted | sum, team_pe(team, team.my_pe + distance));
    if (team.my_pe < distance) continue;
    const auto is_counted = [&] { return load_poll(counted) != 0; };
    if (!spin_until(*call.state, call.name, is_counted, team_pe(team, team.my_pe - distance)))
      return false;
    sum += load_relaxed(counted) & ~abi::kCounted;
    store_relaxed(counted, std::uint64_t{0});  // the next collect comes after a barrier
  }
  store_relaxed(&slot->first, sum - call.bytes);
  return true;
}

/// Puts `source` of every member to all, one after the other; members may contribute different
/// numbers of bytes.
template <class Coop>
GSHMEM_OUTLINE int collect(Coop coop, const TeamCall& call) {
  const State& state = *call.state;
  const bool is_counted = coop.thread_rank() != 0 || count_before(call);
  sync_lanes(coop);
  if (coop.any(!is_counted)) return fault_code(state);
  const std::uint64_t first = load_relaxed(&slot_of(call)->first);
  char* const to = static_cast<char*>(call.dest) + first;
  if (kChecks && call.bytes != 0 && !is_symmetric(state, to, call.bytes)) {
    (void)bad_argument(state, call.name, "dest", abi::Rule::kSymmetric, as_value(call.dest),
                       first + call.bytes);
    return GSHMEMX_ERROR_INVALID_VALUE;
  }
#if defined(GSHMEM_ORDER_ON)  // the memory of the call is known from here on
  TeamCall counted = call;
  counted.dest = to;
  const OrderedCollective<Coop> ordered(coop, counted, call_of(CallKind::kCollect));
#endif
  for_members(*call.team,
              [&](int, int pe) { put_to(coop, call, to, call.source, call.bytes, pe); });
  return end_collective(coop, call);
}

/// A reduction between members that map each other.
template <Result kResult, class W, class Coop, class Reducer>
GSHMEM_OUTLINE int reduce_mapped(Coop coop, const TeamCall& call, Reducer reducer) {
  const int status = sync_call_members(coop, call);
  if (status != 0) return status;
  reduce_in_rounds<kResult, W>(coop, call, reducer);
  return sync_call_members(coop, call);
}

/// The division into chunks of `words` elements of W, one for each member; `left` elements remain.
/// Every step of a reduction in chunks has its own object, so that no step keeps registers for
/// another one.
template <class W>
struct Chunks {
  std::size_t words, left;
  GSHMEM_FN explicit Chunks(const TeamCall& call) {
    const std::size_t n = static_cast<std::size_t>(call.team->n_pes);
    words = call.bytes / sizeof(W) / n;
    left = call.bytes / sizeof(W) % n;
  }
  GSHMEM_FN std::size_t bytes() const { return words * sizeof(W); }
};

/// Gets chunk `my_pe` of the sources of unmapped members into this member's `dest`.
template <class W, class Coop>
GSHMEM_OUTLINE void load_chunks(Coop coop, const TeamCall& call) {
  for_members(*call.team, [&](int i, int pe) {
    if (is_mapped_or_self(*call.state, pe)) return;
    const std::size_t bytes = Chunks<W>(call).bytes();
    nic::get(coop, *call.state, part(call.dest, i, bytes),
             part(call.source, call.team->my_pe, bytes), bytes, pe, nic::Arrival::kAtQuiet);
  });
  quiet(coop, *call.state);
}

/// Combines the chunks that load_chunks got with those of the mapped members. The result goes to
/// this member's own chunk of their `dest`, where no other data arrives.
template <class W, class Coop, class Reducer>
GSHMEM_OUTLINE void combine_chunks(Coop coop, const TeamCall& call, Reducer reducer) {
  const State& state = *call.state;
  const abi::Team& team = *call.team;
  const Chunks<W> chunks(call);
  const std::size_t bytes = chunks.bytes(), width = static_cast<std::size_t>(coop.size());
  const char* const own = part(call.source, team.my_pe, bytes);
  const auto load = [&](int i, std::size_t at) {
    const int pe = team_pe(team, i);
    const char* const chunk =
        is_mapped_or_self(state, pe) ? peer_address(state, own, pe) : part(call.dest, i, bytes);
    return load_relaxed(reinterpret_cast<const W*>(chunk) + at);
  };
  W* const result = reinterpret_cast<W*>(part(call.dest, team.my_pe, bytes));
  GSHMEM_NO_UNROLL
  for (std::size_t at = static_cast<std::size_t>(coop.thread_rank()); at < chunks.words;
       at += width) {
    W sum = load(0, at);
    GSHMEM_NO_UNROLL
    for (int i = 1; i < team.n_pes; ++i) sum = reducer(sum, load(i, at));
    GSHMEM_NO_UNROLL
    for (int i = 0; i < team.n_pes; ++i) {
      const int pe = team_pe(team, i);
      if (is_mapped_or_self(state, pe)) store_relaxed(peer_address(state, result, pe) + at, sum);
    }
  }
  sync_lanes(coop);
}

template <class W, class Coop>
GSHMEM_OUTLINE void put_chunks(Coop coop, const TeamCall& call) {
  for_members(*call.team, [&](int, int pe) {
    if (is_mapped_or_self(*call.state, pe)) return;
    const std::size_t bytes = Chunks<W>(call).bytes();
    char* const result = part(call.dest, call.team->my_pe, bytes);
    nic::put(coop, *call.state, result, result, bytes, pe, nic::Reuse::kAtQuiet);
  });
}

/// Reduces, with the result for all, like reduce_by_words. It is for teams in which some members
/// are not mapped, and for calls whose `dest` is not `source`.
template <class W, class Coop, class Reducer>
GSHMEM_OUTLINE int reduce_by_chunks(Coop coop, const TeamCall& call, Reducer reducer) {
  int status = sync_call_members(coop, call);
  if (status != 0) return status;
  if (Chunks<W>(call).words != 0) {
    load_chunks<W>(coop, call);
    combine_chunks<W>(coop, call, reducer);
    status = sync_call_members(coop, call);  // no member reads `dest` any more
    if (status != 0) return status;
    put_chunks<W>(coop, call);
  }
  const Chunks<W> chunks(call);
  const std::size_t first = chunks.words * static_cast<std::size_t>(call.team->n_pes);
  const std::size_t me = static_cast<std::size_t>(call.team->my_pe), left = chunks.left;
  reduce_words<Result::kForAll, W>(coop, call, reducer, first + (me < left ? me : left),
                                   first + (me < left ? me + 1 : left));
  return end_collective(coop, call);
}

/// Executes a scan, or a reduction that fetches the elements of members that are not mapped one by
/// one.
template <Result kResult, class W, class Coop, class Reducer>
GSHMEM_OUTLINE int combine_by_words(Coop coop, const TeamCall& call, Reducer reducer) {
  const int status = sync_call_members(coop, call);
  if (status != 0) return status;
  reduce_by_words<kResult, W>(coop, call, reducer);
  return end_collective(coop, call);
}

/// Reduces elements of the width of W with `reducer`.
template <class W, class Coop, class Reducer>
GSHMEM_FN int reduce(Coop coop, const TeamCall& call, Reducer reducer) {
  const Algorithm how = algorithm_of<CallKind::kReduce>(coop, call, sizeof(W));
  if (how == Algorithm::kPackets)
    return by_packets<Give::kWhole>(coop, call, CombinePackets<PacketUnit<W>, Reducer>{reducer});
  if (how == Algorithm::kLevels) return reduce_in_levels<W>(coop, call, reducer);
  if (how == Algorithm::kOneShot) return reduce_mapped<Result::kForOne, W>(coop, call, reducer);
  if (how == Algorithm::kTwoShots) return reduce_mapped<Result::kForAll, W>(coop, call, reducer);
  if (how == Algorithm::kWords) return combine_by_words<Result::kForAll, W>(coop, call, reducer);
  return reduce_by_chunks<W>(coop, call, reducer);
}

/// Every member gets the combination of the members up to it, or before it.
template <Result kResult, class W, class Coop, class Reducer>
GSHMEM_FN int scan(Coop coop, const TeamCall& call, Reducer reducer) {
  constexpr CallKind kKind = kResult == Result::kInclusive ? CallKind::kInscan : CallKind::kExscan;
  if (algorithm_of<kKind>(coop, call) == Algorithm::kPackets)
    return by_packets<Give::kWhole>(coop, call,
                                    CombinePackets<PacketUnit<W>, Reducer, kResult>{reducer});
  return combine_by_words<kResult, W>(coop, call, reducer);
}

/// Combines the members' parts with this member's number; a part has `bytes`.
template <class W, class Coop, class Reducer>
GSHMEM_FN int reducescatter(Coop coop, const TeamCall& call, Reducer reducer) {
  const Algorithm how = algorithm_of<CallKind::kReducescatter>(coop, call);
  if (how == Algorithm::kPackets)
    return by_packets<Give::kParts>(coop, call, CombinePackets<PacketUnit<W>, Reducer>{reducer});
  if (how == Algorithm::kOneShot) return reduce_mapped<Result::kForOne, W>(coop, call, reducer);
  return combine_by_words<Result::kForOne, W>(coop, call, reducer);
}

}  // namespace gshmem::device

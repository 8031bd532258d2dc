// Collectives by many blocks of every member, between members that all map each other. They are the
// kernels of calls by host threads and on streams. Block b of a member does the same share of the
// work as block b of the others. It synchronizes with these blocks alone, by words that no other
// block uses. So the blocks of one call need not run at the same time: if only some blocks fit on a
// GPU, every GPU runs the first ones first.
//
// Reductions load the words of all members at once. In one shot every member combines all words. In
// two shots member i combines chunk i and stores the result to all. Alltoall and fcollect store
// data where they belong. In a long broadcast every member but the root loads one chunk from the
// root and stores it to all but the root: each link carries the message once.
//
// Ordering. A kernel begins when all earlier work of its stream has reached this GPU's memory, from
// which other members load it. So the flags of the first sync need no fence. The flags of the last
// sync release all stores of the block. If a block has stored to its own PE only, the last sync
// only says that its loads are complete. It needs no fence, because a value that was used has been
// loaded.
#pragma once

#include "reduction.h"
#include "team_call.h"

namespace gshmem::device {

/// A call, and the addresses of its members. The host fills it (grid_call); it is the same for all
/// blocks.
struct GridCall {
  char name[56];  ///< the API function
  void* dest;
  const void* source;
  std::size_t bytes;    ///< see TeamCall
  abi::GridSlot* slot;  ///< the slot of this PE
  std::int32_t n_pes, my_pe, root;
  std::uint32_t in_one_shot;  ///< for a reduction; in a broadcast: the root stores to all
  std::int64_t distance[abi::kPacketPes];  ///< bytes from this PE's heap to that of each member
  std::int32_t pes[abi::kPacketPes];
};
/// The number of the calling block, and the number of blocks.
struct GridPosition {
  std::uint32_t block, blocks;
};

/// Returns the slot of the team with entry `index`, one of the first kPacketTeams. The slots are
/// stored after all packets.
GSHMEM_FN abi::GridSlot* grid_slots(const State& state) {
  const std::uint32_t teams = state.n_teams < abi::kPacketTeams ? state.n_teams : abi::kPacketTeams;
  return reinterpret_cast<abi::GridSlot*>(state.heap + state.heap_bytes +
                                          std::size_t{teams} * abi::kTeamPacketBytes);
}

/// Makes a call of `team`, which has a slot.
GSHMEM_FN GridCall grid_call(const State& state, const abi::Team& team, const Call& call) {
  GridCall made{};
  copy_text(made.name, call.name, sizeof(made.name));
  made.dest = call.dest;
  made.source = call.source;
  made.bytes = call.bytes;
  made.slot = grid_slots(state) + team_index(team.handle);
  made.n_pes = team.n_pes;
  made.my_pe = team.my_pe;
  made.root = call.pe;
  for (int i = 0; i < team.n_pes; ++i) {
    const int pe = team_pe(team, i);
    made.pes[i] = pe;
    made.distance[i] = peer_address(state, state.heap, pe) - state.heap;
  }
  return made;
}

template <class T>
GSHMEM_FN T* at_member(const GridCall& call, T* p, int i) {
  return byte_offset(p, call.distance[i]);
}

enum class Sync { kRelaxed, kRelease };

/// Waits until block `block` of every member has entered sync `number` of these blocks. Returns
/// false if the wait had to end early.
template <class Coop>
GSHMEM_FN bool sync_blocks(Coop coop, const State& state, const GridCall& call, std::uint32_t block,
                           std::uint32_t number, Sync sync) {
  const int rank = coop.thread_rank(), width = coop.size();
  bool arrived = true;
  coop.sync();
  if (rank < call.n_pes) {
    std::uint32_t* const flags = call.slot->arrived[block];
    if (sync == Sync::kRelease) fence_release_system();
    GSHMEM_NO_UNROLL
    for (int i = rank; i < call.n_pes; i += width) {
      if (i != call.my_pe) store_flag(at_member(call, flags + call.my_pe, i), number);
    }
    GSHMEM_NO_UNROLL
    for (int i = rank; arrived && i < call.n_pes; i += width) {
      if (i == call.my_pe) continue;
      arrived = spin_until(
          state, call.name, [&] { return has_signaled(flags + i, number); }, call.pes[i]);
    }
    fence_acquire_system();
  }
  return !coop.any(!arrived);
}

/// Calls `work()` between two syncs of the calling block with the same block of the other members.
/// The last sync is a release if the block has stored to other members. Returns 0, or the code of
/// the PE's first fault.
template <class Coop, class Work>
GSHMEM_FN int between_syncs(Coop coop, const State& state, const GridCall& call,
                            GridPosition position, Sync last, const Work& work) {
  std::uint32_t* const epoch = call.slot->epoch + position.block;
  const std::uint32_t number = load_relaxed(epoch);
  if (!sync_blocks(coop, state, call, position.block, number + 1, Sync::kRelaxed))
    return fault_code(state);
  work();
  if (!sync_blocks(coop, state, call, position.block, number + 2, last)) return fault_code(state);
  if (coop.thread_rank() == 0) store_relaxed(epoch, number + 2);
  return GSHMEMX_SUCCESS;
}

/// The words of one thread: every `step`-th one.
struct GridWords {
  std::size_t at, end, step;
};
/// Returns the words of the calling thread, if all threads of all blocks divide words [first, end)
/// between them.
template <class Coop>
GSHMEM_FN GridWords shared_words(Coop coop, GridPosition position, std::size_t first,
                                 std::size_t end) {
  const auto width = static_cast<std::size_t>(coop.size());
  return {first + position.block * width + static_cast<std::size_t>(coop.thread_rank()), end,
          position.blocks * width};
}
/// Chunk `i` of `chunks` of `count` words: the first chunks have one more word if there is a
/// remainder.
struct GridChunk {
  std::size_t first, end;
  GSHMEM_FN GridChunk(std::size_t count, int i, int chunks) {
    const auto n = static_cast<std::size_t>(chunks), k = static_cast<std::size_t>(i);
    const std::size_t more = count % n;
    first = count / n * k + (k < more ? k : more);
    end = first + count / n + (k < more ? 1 : 0);
  }
};

/// Words of one thread that are in flight at once: word k exists if has(k). With kWhole all of them
/// exist.
template <bool kWhole>
struct GridRound {
  const GridWords& words;
  GSHMEM_FN std::size_t at(int k) const {
    return words.at + static_cast<std::size_t>(k) * words.step;
  }
  GSHMEM_FN bool has(int k) const {
    if constexpr (kWhole) return true;
    return at(k) < words.end;
  }
};
/// Calls `work(round)` for kCount words at a time.
template <int kCount, class Work>
GSHMEM_FN void in_rounds(GridWords words, const Work& work) {
  GSHMEM_NO_UNROLL
  for (; words.at < words.end; words.at += kCount * words.step) {
    if (words.at + (kCount - 1) * words.step < words.end) {
      work(GridRound<true>{words});
    } else {
      work(GridRound<false>{words});
    }
  }
}
template <int kCount, class Round, class W>
GSHMEM_FN void load_round(Round round, W (&word)[kCount], const W* from) {
  GSHMEM_UNROLL
  for (int k = 0; k < kCount; ++k) {
    if (round.has(k)) word[k] = load_relaxed(from + round.at(k));
  }
}
template <int kCount, class Round, class W>
GSHMEM_FN void store_round(Round round, const W (&word)[kCount], W* to) {
  GSHMEM_UNROLL
  for (int k = 0; k < kCount; ++k) {
    if (round.has(k)) store_bulk(to + round.at(k), word[k]);
  }
}

/// Stores `word` to `count` members, the last of which is this one: `count` is 1, or the number of
/// all members.
template <class W>
GSHMEM_FN void store_to_members(const GridCall& call, W* to, W word, int count) {
  GSHMEM_NO_UNROLL
  for (int k = call.n_pes - count + 1; k <= call.n_pes; ++k) {
    const int i = call.my_pe + k < call.n_pes ? call.my_pe + k : call.my_pe + k - call.n_pes;
    store_bulk(at_member(call, to, i), word);
  }
}

/// Combines the words of all members in the order of the members. kMembers: their number, and then
/// all of their words are in flight at once; 0: any number, with the words of two members in
/// flight.
template <int kMembers, int kCount, class W, class Reducer>
GSHMEM_FN void combine_grid_words(const GridCall& call, W* dest, const W* source, GridWords words,
                                  int targets, Reducer reducer) {
  in_rounds<kCount>(words, [&](auto round) {
    W sum[kCount]{};
    const auto add = [&](const W(&more)[kCount]) {
      GSHMEM_UNROLL
      for (int k = 0; k < kCount; ++k) sum[k] = reducer(sum[k], more[k]);
    };
    if constexpr (kMembers != 0) {
      W word[kMembers - 1][kCount]{};
      load_round(round, sum, at_member(call, source, 0));
      GSHMEM_UNROLL
      for (int i = 1; i < kMembers; ++i) load_round(round, word[i - 1], at_member(call, source, i));
      GSHMEM_UNROLL
      for (int i = 1; i < kMembers; ++i) add(word[i - 1]);
    } else {
      W next[kCount]{}, now[kCount]{};
      load_round(round, sum, at_member(call, source, 0));
      if (call.n_pes > 1) load_round(round, next, at_member(call, source, 1));
      GSHMEM_NO_UNROLL
      for (int i = 1; i < call.n_pes; ++i) {
        GSHMEM_UNROLL
        for (int k = 0; k < kCount; ++k) now[k] = next[k];
        if (i + 1 < call.n_pes) load_round(round, next, at_member(call, source, i + 1));
        add(now);
      }
    }
    GSHMEM_UNROLL
    for (int k = 0; k < kCount; ++k) {
      if (round.has(k)) store_to_members(call, dest + round.at(k), sum[k], targets);
    }
  });
}
/// Types whose reductions have code of their own for 2, 4 and 8 members: those that many programs
/// use.
template <class T>
inline constexpr bool kIsCommon = kIsNarrow<T> || (std::is_arithmetic_v<T> && sizeof(T) >= 4);

template <class T, class Reducer>
GSHMEM_FN void combine_wide(const GridCall& call, Word16* dest, const Word16* source,
                            GridWords words, int targets, Reducer reducer) {
  if constexpr (kIsCommon<T>) {
    if (call.n_pes == 2)
      return combine_grid_words<2, 4>(call, dest, source, words, targets, reducer);
    if (call.n_pes == 4)
      return combine_grid_words<4, 2>(call, dest, source, words, targets, reducer);
    if (call.n_pes == 8)
      return combine_grid_words<8, 1>(call, dest, source, words, targets, reducer);
  }
  combine_grid_words<0, 2>(call, dest, source, words, targets, reducer);
}

/// Are both arrays aligned for words of 16 bytes?
GSHMEM_FN bool is_wide(const void* dest, const void* source) {
  return ((reinterpret_cast<std::uintptr_t>(dest) | reinterpret_cast<std::uintptr_t>(source)) %
          sizeof(Word16)) == 0;
}

/// A reduction by elements of T, or with `is_scattered` a reduction of the parts of all sources
/// that have this member's number. Combines words of 16 bytes first, then the rest.
template <class T, class Coop, class Reducer>
GSHMEM_FN int reduce_by_grid(Coop coop, const State& state, const GridCall& call,
                             GridPosition position, bool is_scattered, Reducer reducer) {
  using W = Word<T>;
  const bool is_for_all = !is_scattered && call.in_one_shot == 0;
  const auto work = [&] {
    const void* const source =
        is_scattered ? part(call.source, call.my_pe, call.bytes) : call.source;
    const int targets = is_for_all ? call.n_pes : 1;
    const auto chunk = [&](std::size_t count) {
      return is_for_all ? GridChunk(count, call.my_pe, call.n_pes) : GridChunk(count, 0, 1);
    };
    const std::size_t wide = is_wide(call.dest, source) ? call.bytes / sizeof(Word16) : 0;
    const GridChunk words = chunk(wide);
    combine_wide<T>(call, static_cast<Word16*>(call.dest), static_cast<const Word16*>(source),
                    shared_words(coop, position, words.first, words.end), targets, reducer);
    if constexpr (sizeof(W) < sizeof(Word16)) {
      const std::size_t first = wide * (sizeof(Word16) / sizeof(W));
      const GridChunk rest = chunk(call.bytes / sizeof(W) - first);
      combine_grid_words<0, 2>(call, static_cast<W*>(call.dest), static_cast<const W*>(source),
                               shared_words(coop, position, first + rest.first, first + rest.end),
                               targets, reducer);
    }
  };
  return between_syncs(coop, state, call, position, is_for_all ? Sync::kRelease : Sync::kRelaxed,
                       work);
}

/// Loads `words` from `from`. `store` stores each of them to all its destinations.
template <int kCount, class W, class Store>
GSHMEM_FN void copy_grid_words(const W* from, GridWords words, const Store& store) {
  in_rounds<kCount>(words, [&](auto round) {
    W word[kCount]{};
    load_round(round, word, from);
    GSHMEM_UNROLL
    for (int k = 0; k < kCount; ++k) {
      if (round.has(k)) store(round.at(k), word[k]);
    }
  });
}
inline constexpr int kGridCopies = 4;  ///< words of a thread that are in flight

#if defined(__CUDA_ARCH__)
inline constexpr std::uint32_t kGridLanes = 32;
#else
inline constexpr std::uint32_t kGridLanes = 1;
#endif
/// Copies parts of `count` words: every warp has words of one part, so that all parts are in flight
/// at once. `copy(i, words)` copies those of part i.
template <class Coop, class Copy>
GSHMEM_FN void in_parts(Coop coop, GridPosition position, int parts, std::size_t count,
                        const Copy& copy) {
  const auto width = static_cast<std::uint32_t>(coop.size());
  const auto rank = static_cast<std::uint32_t>(coop.thread_rank());
  const auto n = static_cast<std::uint32_t>(parts);
  const std::uint32_t warps = position.blocks * (width / kGridLanes);
  const std::uint32_t each = warps < n ? 1 : warps / n;
  GSHMEM_NO_UNROLL
  for (std::uint32_t warp = position.block * (width / kGridLanes) + rank / kGridLanes;
       warp < each * n; warp += warps) {
    copy(static_cast<int>(warp % n),
         GridWords{std::size_t{warp / n} * kGridLanes + rank % kGridLanes, count,
                   std::size_t{each} * kGridLanes});
  }
}

template <class W, class Coop>
GSHMEM_FN void move_by_words(Coop coop, CallKind kind, const GridCall& call, GridPosition position,
                             std::size_t first, std::size_t end) {
  W* const dest = static_cast<W*>(call.dest);
  const W* const source = static_cast<const W*>(call.source);
  const std::size_t count = call.bytes / sizeof(W);
  if (kind == CallKind::kAlltoall &&
      count >= std::size_t{position.blocks} * static_cast<std::size_t>(coop.size()) * kGridCopies) {
    in_rounds<kGridCopies>(shared_words(coop, position, 0, count), [&](auto round) {
      GSHMEM_NO_UNROLL
      for (int k = 1; k <= call.n_pes; ++k) {
        const int i = call.my_pe + k < call.n_pes ? call.my_pe + k : call.my_pe + k - call.n_pes;
        W word[kGridCopies]{};
        load_round(round, word, source + static_cast<std::size_t>(i) * count);
        store_round(round, word,
                    at_member(call, dest + static_cast<std::size_t>(call.my_pe) * count, i));
      }
    });
  } else if (kind == CallKind::kAlltoall) {
    in_parts(coop, position, call.n_pes, count, [&](int k, GridWords words) {
      const int i = call.my_pe + k < call.n_pes ? call.my_pe + k : call.my_pe + k - call.n_pes;
      W* const to = at_member(call, dest + static_cast<std::size_t>(call.my_pe) * count, i);
      copy_grid_words<kGridCopies>(source + static_cast<std::size_t>(i) * count, words,
                                   [&](std::size_t at, W word) { store_bulk(to + at, word); });
    });
  } else if (kind == CallKind::kFcollect) {
    W* const to = dest + static_cast<std::size_t>(call.my_pe) * count;
    copy_grid_words<kGridCopies>(
        source, shared_words(coop, position, 0, count),
        [&](std::size_t at, W word) { store_to_members(call, to + at, word, call.n_pes); });
  } else if (call.in_one_shot != 0) {
    if (call.my_pe != call.root) return;
    copy_grid_words<kGridCopies>(
        source, shared_words(coop, position, first, end),
        [&](std::size_t at, W word) { store_to_members(call, dest + at, word, call.n_pes); });
  } else if (call.my_pe == call.root) {
    if (dest == source) return;
    copy_grid_words<kGridCopies>(source, shared_words(coop, position, first, end),
                                 [&](std::size_t at, W word) { store_bulk(dest + at, word); });
  } else {
    const GridChunk mine(end - first, call.my_pe < call.root ? call.my_pe : call.my_pe - 1,
                         call.n_pes - 1);
    copy_grid_words<kGridCopies>(at_member(call, source, call.root),
                                 shared_words(coop, position, first + mine.first, first + mine.end),
                                 [&](std::size_t at, W word) {
                                   GSHMEM_NO_UNROLL
                                   for (int k = 1; k <= call.n_pes; ++k) {
                                     const int i = call.my_pe + k < call.n_pes
                                                       ? call.my_pe + k
                                                       : call.my_pe + k - call.n_pes;
                                     if (i != call.root)
                                       store_bulk(at_member(call, dest + at, i), word);
                                   }
                                 });
  }
}

/// Alltoall, fcollect and broadcast, with the widest words that all parts allow.
template <class Coop>
GSHMEM_FN int move_by_grid(Coop coop, const State& state, CallKind kind, const GridCall& call,
                           GridPosition position) {
  return between_syncs(coop, state, call, position, Sync::kRelease, [&] {
    const bool is_single = kind == CallKind::kBroadcast;
    const std::uintptr_t addresses = reinterpret_cast<std::uintptr_t>(call.dest) |
                                     reinterpret_cast<std::uintptr_t>(call.source) |
                                     (is_single ? 0 : call.bytes);
    if (addresses % sizeof(Word16) == 0) {
      const std::size_t words = call.bytes / sizeof(Word16), first = words * sizeof(Word16);
      move_by_words<Word16>(coop, kind, call, position, 0, words);
      if (is_single && first != call.bytes)
        move_by_words<std::uint8_t>(coop, kind, call, position, first, call.bytes);
    } else if (addresses % sizeof(std::uint32_t) == 0 && call.bytes % sizeof(std::uint32_t) == 0) {
      move_by_words<std::uint32_t>(coop, kind, call, position, 0,
                                   call.bytes / sizeof(std::uint32_t));
    } else {
      move_by_words<std::uint8_t>(coop, kind, call, position, 0, call.bytes);
    }
  });
}

}  // namespace gshmem::device

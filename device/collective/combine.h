// Reductions over words of the members' memory: which thread combines which words, and where the
// results go. Included by collective.h and hierarchical.h.
#pragma once

#include "reduction.h"
#include "collective_check.h"

namespace gshmem::device {

/// Is PE `pe` reached by load and store? PEs that map no others still reach themselves.
GSHMEM_FN bool is_mapped_or_self(const State& state, int pe) {
  return pe == state.my_pe || is_mapped(state, pe);
}

/// These functions load an element of member i, or store one to it. They are out of line, to save
/// registers in the loops.
template <class W>
GSHMEM_OUTLINE W load_member_element(const TeamCall& call, const W* source, int i) {
  return g(*call.state, source, team_pe(*call.team, i));
}
template <class W>
GSHMEM_OUTLINE void put_element(const TeamCall& call, W* dest, W value, int i) {
  p(*call.state, dest, value, team_pe(*call.team, i));
}

/// The variables of a scan, in local memory to save registers of the functions that it calls.
template <class W>
struct ScanWork {
  std::size_t at, end;
  W sum;
  int i;
};
/// Combines words [first, end) of the arrays of all members, one by one, by all threads of the
/// group. RemoteWords would take one register too many here.
template <Result kResult, class W, class Coop, class Reducer>
GSHMEM_FN void scan_words(Coop coop, const TeamCall& call, Reducer reducer, std::size_t first,
                          std::size_t end) {
  const auto source = [&](std::size_t at) { return static_cast<const W*>(call.source) + at; };
  const auto dest = [&](std::size_t at) { return static_cast<W*>(call.dest) + at; };
  ScanWork<W> work{first + static_cast<std::size_t>(coop.thread_rank()), end, {}, 0};
  GSHMEM_NO_UNROLL
  for (; work.at < work.end; work.at += static_cast<std::size_t>(coop.size())) {
    GSHMEM_NO_UNROLL
    for (work.i = 0; work.i < call.team->n_pes; ++work.i) {
      const W more = load_member_element(call, source(work.at), work.i);
      keep_in_memory(work);
      const W before = work.sum;
      work.sum = work.i == 0 ? more : reducer(before, more);
      if constexpr (kResult == Result::kExclusive)
        put_element(call, dest(work.at), work.i == 0 ? W{} : before, work.i);
      if constexpr (kResult == Result::kInclusive)
        put_element(call, dest(work.at), work.sum, work.i);
      keep_in_memory(work);
    }
  }
}

/// A thread's words of a reduction in which some members are not mapped. In a turn the thread
/// combines as many words as half of a scratch slot holds, so that one READ fetches a member's
/// words. The other half holds the result. The object is in memory, to save registers of the
/// functions that it calls.
template <class W>
struct RemoteWords {
  static constexpr std::size_t kMost = sizeof(abi::ScratchSlot::data) / 2 / sizeof(W);
  const TeamCall* call;
  abi::ScratchSlot* slot;
  std::size_t at, n;  ///< the words of this turn
  /// The same in all turns: the end, the words per turn, and the distance from turn to turn.
  std::size_t end, each, apart;
  int i;
  GSHMEM_FN W* sum() const { return reinterpret_cast<W*>(slot->data); }
  GSHMEM_FN W* landing() const { return sum() + kMost; }
  GSHMEM_FN int pe() const { return team_pe(*call->team, i); }
  GSHMEM_FN std::uint32_t bytes() const { return static_cast<std::uint32_t>(n * sizeof(W)); }
  GSHMEM_FN bool is_member() const { return i < call->team->n_pes; }
};
template <class W>
GSHMEM_OUTLINE bool next_turn(RemoteWords<W>& words) {
  if (words.n != 0) words.at += words.apart;
  if (words.at >= words.end) return false;
  words.n = words.end - words.at < words.each ? words.end - words.at : words.each;
  words.i = 0;
  return true;
}
template <class W>
GSHMEM_FN void copy_words(W* to, const W* from, std::size_t n) {
  GSHMEM_NO_UNROLL
  for (std::size_t k = 0; k < n; ++k) store_relaxed(to + k, load_relaxed(from + k));
}
/// Fetches the words of member `i` into the slot.
template <class W>
GSHMEM_OUTLINE void load_remote_words(const RemoteWords<W>& words) {
  const State& state = *words.call->state;
  const W* const source = static_cast<const W*>(words.call->source) + words.at;
  const int pe = words.pe();
  if (is_mapped_or_self(state, pe))
    return copy_words(words.landing(), peer_address(state, source, pe), words.n);
  nic::move_value(state, nic::Operation::kGet, source, words.landing(), words.bytes(), pe);
}
/// Puts the combined words to member `i`.
template <class W>
GSHMEM_OUTLINE void put_remote_words(const RemoteWords<W>& words) {
  const State& state = *words.call->state;
  W* const dest = static_cast<W*>(words.call->dest) + words.at;
  const int pe = words.pe();
  if (is_mapped_or_self(state, pe))
    return copy_words(peer_address(state, dest, pe), words.sum(), words.n);
  nic::move_value(state, nic::Operation::kPut, dest, words.sum(), words.bytes(), pe);
}
template <class W>
GSHMEM_OUTLINE void keep_words(const RemoteWords<W>& words) {
  copy_words(static_cast<W*>(words.call->dest) + words.at, words.sum(), words.n);
}
template <class W, class Reducer>
GSHMEM_OUTLINE void combine_words(const RemoteWords<W>& words, Reducer reducer) {
  W* const sum = words.sum();
  GSHMEM_NO_UNROLL
  for (std::size_t k = 0; k < words.n; ++k) {
    const W word = load_relaxed(words.landing() + k);
    store_relaxed(sum + k, words.i == 0 ? word : reducer(load_relaxed(sum + k), word));
  }
}
template <Result kResult, class W, class Reducer>
GSHMEM_OUTLINE void combine_turn(RemoteWords<W>& words, Reducer reducer) {
  GSHMEM_NO_UNROLL
  for (; words.is_member(); ++words.i) {
    load_remote_words(words);
    keep_in_memory(words);
    combine_words(words, reducer);
    keep_in_memory(words);
  }
  if constexpr (kResult == Result::kForOne) keep_words(words);
  if constexpr (kResult == Result::kForAll) {
    GSHMEM_NO_UNROLL
    for (words.i = 0; words.is_member(); ++words.i) {
      put_remote_words(words);
      keep_in_memory(words);
    }
  }
}
template <class W, class Coop>
GSHMEM_OUTLINE void plan_remote_words(Coop coop, RemoteWords<W>& words, const TeamCall& call,
                                      std::size_t first, std::size_t end) {
  const std::size_t width = static_cast<std::size_t>(coop.size());
  const std::size_t share = (end - first + width - 1) / width;
  words.call = &call;
  words.each = share < RemoteWords<W>::kMost ? share : RemoteWords<W>::kMost;
  words.at = first + static_cast<std::size_t>(coop.thread_rank()) * words.each;
  words.n = 0;
  words.end = end;
  words.apart = width * words.each;
}
/// Frees the slot, unless the call failed: a late READ may still write to it.
template <class W>
GSHMEM_OUTLINE void end_remote_words(const RemoteWords<W>& words) {
  if (load_acquire(&words.call->state->control->stop) == 0) nic::free_scratch(words.slot);
}
/// Combines words [first, end) of a reduction between members of which some are not mapped. Members
/// that all map each other use reduce_in_rounds.
template <Result kResult, class W, class Coop, class Reducer>
GSHMEM_OUTLINE void reduce_far_words(Coop coop, const TeamCall& call, Reducer reducer,
                                     std::size_t first, std::size_t end) {
  RemoteWords<W> words;
  plan_remote_words(coop, words, call, first, end);
  keep_in_memory(words);
  if (words.at >= words.end) return;
  words.slot = nic::claim_or_report(words.call->state);
  if (!words.slot) return;
  GSHMEM_NO_UNROLL
  while (next_turn(words)) {
    combine_turn<kResult>(words, reducer);
    keep_in_memory(words);
  }
  end_remote_words(words);
}
/// Calls scan_words or reduce_far_words. The group must synchronize before the result is used.
template <Result kResult, class W, class Coop, class Reducer>
GSHMEM_FN void reduce_words(Coop coop, const TeamCall& call, Reducer reducer, std::size_t first,
                            std::size_t end) {
  if constexpr (kResult == Result::kInclusive || kResult == Result::kExclusive) {
    scan_words<kResult, W>(coop, call, reducer, first, end);
  } else {
    reduce_far_words<kResult, W>(coop, call, reducer, first, end);
  }
  sync_lanes(coop);
}

/// A member's share of `count` words: all of them, or its part if the words are divided evenly
/// between the members. If there is a remainder, the first members have one more.
struct Share {
  std::size_t first, end;
  GSHMEM_FN Share(Result result, std::size_t count, const abi::Team& team) : first(0), end(count) {
    if (result == Result::kForOne || result == Result::kOwn) return;
    const std::size_t n = static_cast<std::size_t>(team.n_pes);
    const std::size_t me = static_cast<std::size_t>(team.my_pe), more = count % n;
    first = count / n * me + (me < more ? me : more);
    end = first + count / n + (me < more ? 1 : 0);
  }
};

/// Returns how many words of 16 bytes the arrays allow.
GSHMEM_FN std::size_t wide_words(const TeamCall& call) {
  const std::uintptr_t both =
      reinterpret_cast<std::uintptr_t>(call.dest) | reinterpret_cast<std::uintptr_t>(call.source);
  return both % sizeof(Word16) == 0 ? call.bytes / sizeof(Word16) : 0;
}
template <class W>
inline constexpr std::size_t kLanes = sizeof(Word16) / sizeof(W);

/// Combines all words of 16 bytes first, then the remaining elements of W.
template <Result kResult, class W, class Coop, class Reducer>
GSHMEM_FN void reduce_by_words(Coop coop, const TeamCall& call, Reducer reducer) {
  std::size_t wide = wide_words(call);
  const Share mine(kResult, wide, *call.team);
  reduce_words<kResult, Word16>(coop, call, reducer, mine.first, mine.end);
  keep_in_memory(wide);
  const std::size_t first = wide * kLanes<W>;
  const Share rest(kResult, call.bytes / sizeof(W) - first, *call.team);
  reduce_words<kResult, W>(coop, call, reducer, first + rest.first, first + rest.end);
}

/// The words that a thread combines in rounds: its first one, the end, and the distance from round
/// to round. The object is in memory, so that registers remain for the loads in flight.
struct WordRounds {
  std::size_t at, end, step;
  int members;
  /// Distances in bytes: from this PE's copy of an address to that of the first member, and from a
  /// member's copy to that of the next one. `each` is 0 where heaps are not mapped in the order of
  /// the team.
  std::int64_t first, each;
};
/// The rounds of a thread if all members map each other. A tile is four words of every lane of a
/// warp: these are in flight at once for each member, at offsets known to the compiler. There are
/// registers for eight words of one member.
struct MappedRounds {
  WordRounds tiles, words, elements;
};
template <Result kResult>
inline constexpr int kTileWords = kResult == Result::kOwn ? 8 : 4;
template <class Coop>
inline constexpr int kTileLanes = std::is_same_v<Coop, Thread> ? 1 : 32;

/// Are the heaps of the members mapped in the order of the team, with the same distance between
/// neighbours?
GSHMEM_FN bool has_even_steps(const TeamCall& call) {
  const abi::Team& team = *call.team;
  return !team.members && is_consecutive(*call.state, team.start) &&
         is_consecutive(*call.state, team.start + (team.n_pes - 1) * team.stride);
}

/// Computes the rounds of a thread. Lanes of a partial warp have no tiles. It is out of line, and
/// the result in memory, to save registers of the caller.
template <Result kResult, class W, class Coop>
GSHMEM_OUTLINE void plan_rounds(Coop coop, const TeamCall& call, MappedRounds& plan) {
  constexpr std::size_t kLane = kTileLanes<Coop>, kTile = kTileWords<kResult> * kLane;
  const std::size_t rank = static_cast<std::size_t>(coop.thread_rank());
  const std::size_t width = static_cast<std::size_t>(coop.size()), warps = width / kLane;
  const std::size_t wide = wide_words(call);
  const Share mine(kResult, wide, *call.team);
  const std::size_t tiled = warps == 0 ? 0 : (mine.end - mine.first) / kTile * kTile;
  const std::int64_t stride = has_even_steps(call) ? call.state->stride : 0;
  const WordRounds none{0,
                        0,
                        0,
                        call.team->n_pes,
                        (call.team->start - call.state->my_pe) * stride,
                        call.team->stride * stride};
  plan = {none, none, none};
  plan.tiles.at = mine.first + rank / kLane * kTile + rank % kLane;
  plan.tiles.end = mine.first + (rank / kLane < warps ? tiled : 0);
  plan.tiles.step = warps * kTile;
  plan.words.at = mine.first + tiled + rank;
  plan.words.end = mine.end;
  plan.words.step = width;
  const std::size_t first = wide * kLanes<W>;
  const Share rest(kResult, call.bytes / sizeof(W) - first, *call.team);
  plan.elements.at = first + rest.first + rank;
  plan.elements.end = first + rest.end;
  plan.elements.step = width;
  keep_in_memory(plan);
}

/// These functions return the copy of word `at` of `array` at a member.
template <class W>
GSHMEM_OUTLINE W* member_word_by_table(const TeamCall& call, W* array, std::size_t at, int i) {
  return peer_address(*call.state, array + at, team_pe(*call.team, i));
}
template <class W>
GSHMEM_FN W* first_member_word(const TeamCall& call, const WordRounds& rounds, W* array) {
  if (rounds.each == 0) return member_word_by_table(call, array, rounds.at, 0);
  return byte_offset(array + rounds.at, rounds.first);
}
/// Is for a member after the first one. `before` is the copy at the member before it.
template <class W>
GSHMEM_FN W* next_member_word(const TeamCall& call, const WordRounds& rounds, W* array, W* before,
                              int i) {
  if (rounds.each == 0) return member_word_by_table(call, array, rounds.at, i);
  return byte_offset(before, rounds.each);
}

/// Combines kAtOnce words of every round, which are kApart words from each other, for all members
/// or for this one. The words of the first member are loaded before the loop. An array that is set
/// only under a condition would keep its registers in all of the kernel.
template <Result kResult, int kAtOnce, int kApart, class W, class Reducer>
GSHMEM_OUTLINE void reduce_rounds(const TeamCall& call, Reducer reducer, WordRounds& rounds) {
  GSHMEM_NO_UNROLL
  for (; rounds.at < rounds.end; rounds.at += rounds.step) {
    const auto load = [&](W(&word)[kAtOnce], const W* from) {
      for (int k = 0; k < kAtOnce; ++k) word[k] = load_relaxed(from + k * kApart);
    };
    const auto store = [&](const W(&word)[kAtOnce], W* to) {
      for (int k = 0; k < kAtOnce; ++k) store_relaxed(to + k * kApart, word[k]);
    };
    const W* const own = static_cast<const W*>(call.source);
    W sum[kAtOnce];
    if constexpr (kResult == Result::kOwn) {
      load(sum, own + rounds.at);
    } else {
      const W* from = first_member_word(call, rounds, own);
      W more[kAtOnce];
      load(sum, from);
      GSHMEM_NO_UNROLL
      for (int i = 1; i < rounds.members; ++i) {
        from = next_member_word(call, rounds, own, from, i);
        load(more, from);
        for (int k = 0; k < kAtOnce; ++k) sum[k] = reducer(sum[k], more[k]);
      }
    }
    W* const dest = static_cast<W*>(call.dest);
    if constexpr (kResult == Result::kForOne) {
      store(sum, dest + rounds.at);
    } else {
      W* to = first_member_word(call, rounds, dest);
      store(sum, to);
      GSHMEM_NO_UNROLL
      for (int i = 1; i < rounds.members; ++i) {
        to = next_member_word(call, rounds, dest, to, i);
        store(sum, to);
      }
    }
    keep_in_memory(rounds);
  }
}

/// Reduces like reduce_by_words, with the result for all or for one, if all members map each other.
/// The group must synchronize before the result is used.
template <Result kResult, class W, class Coop, class Reducer>
GSHMEM_FN void reduce_in_rounds(Coop coop, const TeamCall& call, Reducer reducer) {
  MappedRounds plan;
  plan_rounds<kResult, W>(coop, call, plan);
  reduce_rounds<kResult, kTileWords<kResult>, kTileLanes<Coop>, Word16>(call, reducer, plan.tiles);
  reduce_rounds<kResult, 1, 1, Word16>(call, reducer, plan.words);
  reduce_rounds<kResult, 1, 1, W>(call, reducer, plan.elements);
  sync_lanes(coop);
}

/// Puts `source` to `dest` of all members. A thread by itself loads each word once for all of them.
/// In CPU mode that is for few bytes: from 64 KiB on memcpy takes down to 60 % of the time.
template <class Coop>
GSHMEM_OUTLINE void put_to_members(Coop coop, const TeamCall& call) {
#if defined(__CUDA_ARCH__)
  constexpr std::size_t kMost = SIZE_MAX;
#else
  constexpr std::size_t kMost = 4096;
#endif
  if constexpr (std::is_base_of_v<Thread, Coop>) {
    if (call.bytes <= kMost && call.team->mapped != 0 &&
        wide_words(call) * sizeof(Word16) == call.bytes)
      return reduce_in_rounds<Result::kOwn, Word16>(coop, call, 0);
  }
  for_members(*call.team,
              [&](int, int pe) { put_to(coop, call, call.dest, call.source, call.bytes, pe); });
}

}  // namespace gshmem::device

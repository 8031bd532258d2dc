// Reductions by words of the members' memory: what comes of each word, by which thread. Included by
// collective.h and levels.h.
#pragma once

#include "reduction.h"
#include "team_call.h"

namespace gshmem::device {

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

}  // namespace gshmem::device

// Collectives in two levels, for teams whose members are in domains of equal size on several hosts:
// PEs of a domain map each other, all others are reached by the network. Bytes cross the network
// once per domain, not once per member, and every member's NIC carries a part of them:
// - broadcast: the root's domain divides the data into chunks; each member sends one to its
//   counterparts, the members with its number in other domains, and these put it to their
//   neighbours;
// - fcollect: every member sends its part to its counterparts, which put it to their neighbours;
// - reduce: member l of a domain combines chunk l of its neighbours; the counterparts combine that
//   chunk across domains, by sub-chunks; each puts it to its neighbours. A NIC sends 2 (H - 1) / H
//   of a chunk, for H domains.
//
// In an alltoall no byte goes to two members of a domain, so it is not hierarchical, nor are
// collects and scans.
//
// All members combine each element in the same order: that of a domain's members, then that of the
// domains. So they get the same bits, and so does a repetition by the same team; a reduction in one
// level may give other bits.
#pragma once

#include "combine.h"
#include "../ops/order.h"
#include "collective_check.h"

namespace gshmem::device {

/// A team as a table: a row has the members of a domain, a column those with the same number in
/// their domains. The object has this member's row and column, as teams. It is in memory, like all
/// data that the steps of a call share. A register that is live across the calls of a step would be
/// one more register for the kernel.
struct Levels {
  abi::Team inside, across;  ///< only their members, numbers and handle are used
  int inner_stride, outer_stride;
  GSHMEM_FN int domain_of(int member) const { return member / outer_stride % across.n_pes; }
  /// Returns the member of this column in domain `h`.
  GSHMEM_FN int member_of(int h) const { return h * outer_stride + inside.my_pe * inner_stride; }
};
GSHMEM_OUTLINE void find_levels(Levels& levels, const abi::Team& team) {
  const auto part_of = [&](int first, int distance, int n, int me) {
    return abi::Team{team.members,
                     team.start + first * team.stride,
                     distance * team.stride,
                     n,
                     me,
                     team.handle,
                     0};
  };
  const int inner = team.inner, domains = team.n_pes / inner, to_next = team.inner_stride;
  const int to_next_domain = to_next == 1 ? inner : 1;
  const int l = team.my_pe / to_next % inner, h = team.my_pe / to_next_domain % domains;
  levels.inner_stride = to_next;
  levels.outer_stride = to_next_domain;
  levels.inside = part_of(h * to_next_domain, to_next, inner, l);
  levels.across = part_of(l * to_next, to_next_domain, domains, h);
}

/// Divides an array into parts of whole units, which differ by one unit; the last part also has the
/// remainder.
struct Cut {
  std::size_t bytes, unit, parts, each, more;
  Cut() = default;
  GSHMEM_FN Cut(std::size_t all_bytes, std::size_t unit_bytes, int n_parts)
      : bytes(all_bytes),
        unit(unit_bytes),
        parts(static_cast<std::size_t>(n_parts)),
        each(bytes / unit / parts),
        more(bytes / unit % parts) {}
  GSHMEM_FN std::size_t at(int part) const {
    const std::size_t i = static_cast<std::size_t>(part);
    return i == parts ? bytes : (i * each + (i < more ? i : more)) * unit;
  }
  /// Returns an upper bound on the bytes of a part.
  GSHMEM_FN std::size_t most() const { return (each + 2) * unit; }
};

/// Changes `call` to work in place: `dest` becomes both source and destination, at the same
/// symmetric address on all members of `to`.
GSHMEM_FN void set_in_place(TeamCall& call, char* dest, std::size_t bytes, const abi::Team& to) {
  call.dest = dest;
  call.source = dest;
  call.bytes = bytes;
  call.team = &to;
  keep_in_memory(call);
}

struct FcollectLevels {
  Levels levels;
  TeamCall call;
  char* dest;
  int h;
  GSHMEM_FN char* part_of(int domain) const {
    return part(dest, levels.member_of(domain), call.bytes);
  }
};
/// Puts the part of this member's counterpart in domain `work.h` to this member's row.
template <class Coop>
GSHMEM_FN void put_part(Coop coop, FcollectLevels& work) {
  set_in_place(work.call, work.part_of(work.h), work.call.bytes, work.levels.inside);
  put_to_members(coop, work.call);
}
GSHMEM_OUTLINE bool next_domain(FcollectLevels& work) {
  work.h += work.h + 1 == work.levels.across.my_pe ? 2 : 1;
  return work.h < work.levels.across.n_pes;
}
GSHMEM_OUTLINE void find_fcollect_levels(FcollectLevels& work, const TeamCall& call) {
  find_levels(work.levels, *call.team);
  work.call = call;
  work.call.team = &work.levels.across;
  work.dest = static_cast<char*>(call.dest);
  work.h = work.levels.across.my_pe;
  work.call.dest = work.part_of(work.h);
}
template <class Coop>
GSHMEM_OUTLINE int fcollect_in_levels(Coop coop, const TeamCall& call) {
  FcollectLevels work;
  find_fcollect_levels(work, call);
  put_to_members(coop, work.call);
  put_part(coop, work);
  const int status = end_collective(coop, work.call);
  if (status != 0) return status;
  work.h = -1;
  keep_in_memory(work);
  GSHMEM_NO_UNROLL
  while (next_domain(work)) put_part(coop, work);
  return end_collective(coop, work.call);
}

struct BroadcastLevels {
  Levels levels;
  abi::Team one;  ///< the members of the root's row, one at a time
  TeamCall call;
  Cut cut;
  char* dest;
  const void* source;
  int l;
  bool is_near_root;
};
GSHMEM_FN void set_my_chunk(BroadcastLevels& work, const abi::Team& to) {
  const int l = work.levels.inside.my_pe;
  set_in_place(work.call, work.dest + work.cut.at(l), work.cut.at(l + 1) - work.cut.at(l), to);
}
GSHMEM_OUTLINE void find_broadcast_levels(BroadcastLevels& work, const TeamCall& call, int root) {
  find_levels(work.levels, *call.team);
  work.call = call;
  work.cut = Cut(call.bytes, sizeof(Word16), call.team->inner);
  work.dest = static_cast<char*>(call.dest);
  work.source = call.source;
  work.l = 0;
  work.is_near_root = work.levels.domain_of(root) == work.levels.across.my_pe;
  work.one = work.levels.inside;
  work.one.n_pes = call.team->my_pe == root ? 1 : 0;
  work.one.my_pe = 0;
  keep_in_memory(work);
}
/// Puts chunk `work.l` from the root to member `work.l` of its row.
template <class Coop>
GSHMEM_OUTLINE void put_chunk(Coop coop, BroadcastLevels& work) {
  const std::size_t first = work.cut.at(work.l);
  set_in_place(work.call, work.dest + first, work.cut.at(work.l + 1) - first, work.one);
  work.call.source = part(work.source, 1, first);
  put_to_members(coop, work.call);
  work.one.start += work.one.stride;
  ++work.l;
  keep_in_memory(work);
}
template <class Coop>
GSHMEM_OUTLINE int broadcast_in_levels(Coop coop, const TeamCall& call, int root) {
  BroadcastLevels work;
  find_broadcast_levels(work, call, root);
  GSHMEM_NO_UNROLL
  while (work.l < work.levels.inside.n_pes) put_chunk(coop, work);
  int status = sync_call_members(coop, work.call);
  if (status != 0) return status;
  if (work.is_near_root) {
    set_my_chunk(work, work.levels.across);
    put_to_members(coop, work.call);
  }
  status = end_collective(coop, work.call);
  if (status != 0) return status;
  set_my_chunk(work, work.levels.inside);
  put_to_members(coop, work.call);
  return end_collective(coop, work.call);
}

/// Divides a reduction's array, for elements of `bytes` bytes. Sub-chunk h of chunk l is part l * H
/// + h: member l of domain h combines it across domains.
GSHMEM_FN Cut reduce_cut(const TeamCall& call, std::size_t bytes) {
  const std::uintptr_t both =
      reinterpret_cast<std::uintptr_t>(call.dest) | reinterpret_cast<std::uintptr_t>(call.source);
  return {call.bytes, both % sizeof(Word16) == 0 ? sizeof(Word16) : bytes, call.team->n_pes};
}
/// Does the array have room for the sub-chunks of other domains? All members get the same result.
GSHMEM_OUTLINE bool has_room(const TeamCall& call, std::size_t element_bytes) {
  const Cut cut = reduce_cut(call, element_bytes);
  const std::size_t inner = static_cast<std::size_t>(call.team->inner);
  const std::size_t domains = cut.parts / inner;
  return (domains - 1) * cut.most() <= inner / 2 * domains * cut.each * cut.unit;
}

/// A reduction: this member's chunk for its row, and the sub-chunk of that chunk for its column.
/// Both are combined in `dest`. Sub-chunks of other domains are put to `dest` beside the chunk, on
/// the side with more chunks, which has at least half of the others.
struct ReduceLevels {
  Levels levels;
  TeamCall chunk, sub_chunk;
  char* landing;
  std::size_t step;  ///< distance between sub-chunks that have arrived
  bool wide;         ///< all of them begin at multiples of 16 bytes
  /// Returns the sub-chunk of domain `h`.
  GSHMEM_FN char* landed(int h) const {
    const int me = levels.across.my_pe;
    if (h == me) return static_cast<char*>(sub_chunk.dest);
    return landing + static_cast<std::size_t>(h < me ? h : h - 1) * step;
  }
};
GSHMEM_OUTLINE void find_reduce_levels(ReduceLevels& work, const TeamCall& call,
                                       std::size_t element_bytes) {
  const Cut cut = reduce_cut(call, element_bytes);
  find_levels(work.levels, *call.team);
  const int domains = work.levels.across.n_pes, inner = work.levels.inside.n_pes;
  const int l = work.levels.inside.my_pe, first = l * domains,
            own = first + work.levels.across.my_pe;
  char* const dest = static_cast<char*>(call.dest);
  work.chunk = {call.state,
                call.name,
                &work.levels.inside,
                dest + cut.at(first),
                part(call.source, 1, cut.at(first)),
                cut.at(first + domains) - cut.at(first)};
  work.sub_chunk = {call.state,         call.name,          &work.levels.across,
                    dest + cut.at(own), dest + cut.at(own), cut.at(own + 1) - cut.at(own)};
  work.landing = dest + (l < inner - l ? cut.at(first + domains) : 0);
  work.step = cut.most();
  work.wide = cut.unit == sizeof(Word16);
}

template <class Coop>
GSHMEM_OUTLINE void load_sub_chunks(Coop coop, const ReduceLevels& work) {
  for_members(work.levels.across, [&](int h, int pe) {
    if (h == work.levels.across.my_pe) return;
    get_nbi(lean_group(coop), *work.chunk.state, work.landed(h), work.sub_chunk.dest,
            work.sub_chunk.bytes, pe);
  });
  quiet(coop, *work.chunk.state);
}
/// Combines words [first, end) of the sub-chunk, with two words of a domain in flight. The results
/// overwrite the words of this domain.
template <class W, class Coop, class Reducer>
GSHMEM_OUTLINE void combine_landed(Coop coop, const ReduceLevels& work, Reducer reducer,
                                   std::size_t first, std::size_t end) {
  const std::size_t width = static_cast<std::size_t>(coop.size());
  GSHMEM_NO_UNROLL
  for (std::size_t at = first + static_cast<std::size_t>(coop.thread_rank()); at < end;
       at += 2 * width) {
    const std::size_t next = at + width < end ? width : 0;
    const auto load = [&](W(&word)[2], int h) {
      const W* const from = reinterpret_cast<const W*>(work.landed(h)) + at;
      word[0] = load_relaxed(from);
      word[1] = load_relaxed(from + next);
    };
    W sum[2], more[2];
    load(sum, 0);  // as in reduce_rounds
    GSHMEM_NO_UNROLL
    for (int h = 1; h < work.levels.across.n_pes; ++h) {
      load(more, h);
      for (int k = 0; k < 2; ++k) sum[k] = reducer(sum[k], more[k]);
    }
    W* const to = static_cast<W*>(work.sub_chunk.dest) + at;
    store_relaxed(to, sum[0]);
    if (next != 0) store_relaxed(to + next, sum[1]);
  }
  sync_lanes(coop);
}
/// Combines words of 16 bytes as far as the arrays allow, then elements of W.
template <class W, class Coop, class Reducer>
GSHMEM_OUTLINE void combine_sub_chunks(Coop coop, const ReduceLevels& work, Reducer reducer) {
  std::size_t wide = work.wide ? work.sub_chunk.bytes / sizeof(Word16) : 0;
  keep_in_memory(wide);
  combine_landed<Word16>(coop, work, reducer, 0, wide);
  if constexpr (sizeof(W) < sizeof(Word16))
    combine_landed<W>(coop, work, reducer, wide * kLanes<W>, work.sub_chunk.bytes / sizeof(W));
}

/// Runs after this member's chunk of its row is combined: computes the result for all. A neighbour
/// finally writes every other chunk of `dest`, which until then receives sub-chunks of other
/// domains. If `dest` is `source`, that neighbour has read the chunk before.
template <class W, class Coop, class Reducer>
GSHMEM_OUTLINE int reduce_across(Coop coop, ReduceLevels& work, Reducer reducer) {
  int status = sync_call_members(coop, work.chunk);
  if (status != 0) return status;
  load_sub_chunks(coop, work);
  combine_sub_chunks<W>(coop, work, reducer);
  put_to_members(coop, work.sub_chunk);
  status = end_collective(coop, work.chunk);
  if (status != 0) return status;
  work.chunk.source = work.chunk.dest;
  put_to_members(coop, work.chunk);
  return end_collective(coop, work.chunk);
}

/// Requires an array with room (has_room).
template <class W, class Coop, class Reducer>
GSHMEM_OUTLINE int reduce_in_levels(Coop coop, const TeamCall& call, Reducer reducer) {
  const int status = sync_call_members(coop, call);
  if (status != 0) return status;
  ReduceLevels work;
  find_reduce_levels(work, call, sizeof(W));
  reduce_in_rounds<Result::kForOne, W>(coop, work.chunk, reducer);
  return reduce_across<W>(coop, work, reducer);
}

}  // namespace gshmem::device

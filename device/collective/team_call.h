// The code that the collectives of a team share: the arguments of a call, the loop over its
// members, and the parts of their arrays. Included by collective.h and packets.h.
#pragma once

#include "../ops/rma.h"
#include "../ops/sync.h"

namespace gshmem::device {

/// Calls `work(i, pe)` for all members. Each member begins with a different one. The counter is in
/// memory, to save registers for `work`.
template <class Work>
GSHMEM_FN void for_members(const abi::Team& team, const Work& work) {
  int k = 0;
  GSHMEM_NO_UNROLL
  for (; k < team.n_pes; ++k) {
    const int i = team.my_pe + k < team.n_pes ? team.my_pe + k : team.my_pe + k - team.n_pes;
    work(i, team_pe(team, i));
    keep_in_memory(k);
  }
}
GSHMEM_FN char* part(void* array, int i, std::size_t bytes) {
  return static_cast<char*>(array) + i * static_cast<std::ptrdiff_t>(bytes);
}
GSHMEM_FN const char* part(const void* array, int i, std::size_t bytes) {
  return static_cast<const char*>(array) + i * static_cast<std::ptrdiff_t>(bytes);
}

/// Many blocks of one kernel, by which host threads and streams make calls. The type replaces a
/// group when an algorithm is chosen.
struct ManyBlocks {
  GSHMEM_FN int size() const { return 0; }
};

/// The arguments of all collectives: arrays in the heap, and the bytes that one member puts to
/// another. The object is in memory, to save registers of the caller.
struct TeamCall {
  const State* state;
  const char* name;
  const abi::Team* team;
  void* dest;
  const void* source;  ///< if it has several parts: this member's own part
  std::size_t bytes;
  GSHMEM_FN std::uint32_t limit(abi::Limit of) const { return team->limits[static_cast<int>(of)]; }
  /// Is the call within a limit, or `times` of its bytes? All members get the same result: they
  /// have the same team, operation, bytes and scope.
  GSHMEM_FN bool within(abi::Limit of, int times = 1) const {
    return bytes != 0 && bytes * static_cast<std::uint64_t>(times) <= limit(of);
  }
  /// Is the call executed in two levels (hierarchical.h)? Only a team in two levels can do so.
  GSHMEM_FN bool goes_in_levels() const {
    return team->inner != 0 && bytes != 0 && bytes >= limit(abi::Limit::kTwoLevels);
  }
  /// Do many blocks execute the call (grid.h)?
  GSHMEM_FN bool goes_by_grid() const {
    return limit(abi::Limit::kGrid) != 0 && bytes >= limit(abi::Limit::kGrid);
  }
  template <class Coop>
  GSHMEM_FN bool goes_by_packets(Coop coop, abi::Limit of) const {
    if (!within(of)) return false;
    // Members' blocks may differ in their number of threads.
    if (std::is_same_v<Coop, Block> || std::is_same_v<Coop, ManyBlocks>) return true;
    const std::uint64_t packets =
        (bytes + abi::kPacketData - 1) / abi::kPacketData * static_cast<std::uint32_t>(team->n_pes);
    return packets <= std::uint64_t{limit(abi::Limit::kThreadPackets)} *
                          static_cast<std::uint32_t>(coop.size());
  }
};
/// Which result of a reduction is kept, and by which member.
enum class Result {
  kForAll,
  kOwn,        ///< all members get this member's `source`: nothing is combined
  kForOne,     ///< only this member keeps it: its part differs from those of others
  kInclusive,  ///< every member keeps that of the members up to it
  kExclusive   ///< every member keeps that of the members before it; the first one gets zeros
};

GSHMEM_FN abi::SyncSlot* slot_of(const TeamCall& call) {
  return call.state->team_slots + team_index(call.team->handle);
}
/// Returns the call for an operation whose `source` has a part for each member.
GSHMEM_FN TeamCall at_own_part(TeamCall call) {
  call.source = part(call.source, call.team->my_pe, call.bytes);
  return call;
}

/// Copies by one thread or warp have few words in flight, to save registers of the caller.
GSHMEM_FN LeanThread lean_group(Thread) { return {}; }
GSHMEM_FN LeanWarp lean_group(Warp) { return {}; }
template <class Coop>
GSHMEM_FN Coop lean_group(Coop coop) {
  return coop;
}

/// Makes a put, unless it has no bytes or its target is its source.
template <class Coop>
GSHMEM_FN void put_to(Coop coop, const TeamCall& call, void* dest, const void* source,
                      std::size_t bytes, int pe) {
  if (bytes == 0 || (dest == source && pe == call.state->my_pe)) return;
  put_nbi(lean_group(coop), *call.state, dest, source, bytes, pe);
}

}  // namespace gshmem::device

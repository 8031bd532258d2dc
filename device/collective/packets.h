// Collectives of few bytes between members that map each other, with flags in the data. Every
// member stores its data for others as packets of 8 bytes of data. It waits until each packet that
// it receives has the flag of this call. A call takes one message latency and no sync.
//
// Ordering. A packet is stored and loaded by one access of 16 bytes. Each half is 4 bytes of data
// and a flag, in an aligned word of 8 bytes, which no access tears: relaxed stores and loads are
// enough, without a fence. A GPU starts no store before the branch on an earlier load is decided;
// on the CPU store_flag releases and load_poll acquires.
//
// Two buffers are enough, one for even and one for odd numbers of calls. Every member sends packets
// to every member, itself included. A member that begins call n + 2 has received all packets of
// call n + 1. The senders of these had received those of call n before they sent any of n + 1. So
// the packets of n have been read when those of n + 2 overwrite them. In a broadcast, members that
// have no data send a packet without data. Calls of no bytes cannot use packets.
//
// A flag has 31 bits of the number of its call. Packets of calls 2^31 earlier may remain where
// later, shorter calls wrote nothing: before flags repeat, each buffer is cleared (clear_packets).
#pragma once

#include "collective_check.h"

namespace gshmem::device {

/// The packets of one call. Those from member i begin at i * each, at the same offset in every
/// heap.
struct Packets {
  Word16* here;
  std::uint32_t flag, each;  ///< each: number of packets from one member to another
  GSHMEM_FN Word16* of(std::uint32_t member) const { return here + member * std::size_t{each}; }
  /// Returns the number of the first packet of a part that the group sends and awaits.
  GSHMEM_FN static constexpr std::uint32_t first() { return 0; }
};
/// The packets that one of several blocks sends and awaits: `each` of the `all` packets of every
/// part.
struct PacketSlice {
  Word16* here;
  std::uint32_t flag, each, all, begin;
  GSHMEM_FN Word16* of(std::uint32_t member) const {
    return here + member * std::size_t{all} + begin;
  }
  GSHMEM_FN std::uint32_t first() const { return begin; }
};
GSHMEM_FN Word16* packets_of(const TeamCall& call, std::uint32_t number) {
  return reinterpret_cast<Word16*>(call.state->heap + call.state->heap_bytes) +
         (std::size_t{team_index(call.team->handle)} * 2 + number % 2) * abi::kPackets;
}
inline constexpr std::uint32_t kPacketFlag = 1u << 31;  ///< set in each flag: none is 0
inline constexpr std::size_t kChunkBytes = abi::kPacketData;
static_assert(sizeof(Word16) == abi::kPacketBytes);
GSHMEM_FN Word16 packet_of(std::uint32_t flag, std::uint64_t data) {
  return {static_cast<std::uint32_t>(data), flag, static_cast<std::uint32_t>(data >> 32), flag};
}
GSHMEM_FN bool has_flag(Word16 packet, std::uint32_t flag) {
  return packet.y == flag && packet.w == flag;
}
GSHMEM_FN std::uint64_t data_of(Word16 packet) { return std::uint64_t{packet.z} << 32 | packet.x; }

/// Returns the data of a packet: `left` bytes, at most 8, of any alignment.
GSHMEM_FN std::uint64_t load_chunk(const char* from, std::size_t left) {
  const bool aligned = is_aligned<std::uint32_t>(from);
  std::uint64_t chunk = 0;
  GSHMEM_NO_UNROLL
  for (std::size_t i = 0; i < kChunkBytes && i < left;) {
    if (aligned && left - i >= 4) {
      chunk |= std::uint64_t{load_relaxed(reinterpret_cast<const std::uint32_t*>(from + i))}
               << 8 * i;
      i += 4;
    } else {
      chunk |= std::uint64_t{load_relaxed(reinterpret_cast<const std::uint8_t*>(from + i))}
               << 8 * i;
      ++i;
    }
  }
  return chunk;
}
GSHMEM_FN void store_chunk(char* to, std::uint64_t chunk, std::size_t left) {
  if (left >= kChunkBytes && is_aligned<std::uint64_t>(to))
    return store_relaxed(reinterpret_cast<std::uint64_t*>(to), chunk);
  const bool aligned = is_aligned<std::uint32_t>(to);
  GSHMEM_NO_UNROLL
  for (std::size_t i = 0; i < kChunkBytes && i < left;) {
    if (aligned && left - i >= 4) {
      store_relaxed(reinterpret_cast<std::uint32_t*>(to + i),
                    static_cast<std::uint32_t>(chunk >> 8 * i));
      i += 4;
    } else {
      store_relaxed(reinterpret_cast<std::uint8_t*>(to + i),
                    static_cast<std::uint8_t>(chunk >> 8 * i));
      ++i;
    }
  }
}

/// A packet and its member.
struct PacketIndex {
  std::uint32_t member, packet;
};
/// The packets of a thread, in turns. To compute them without a division, the numbers of a member's
/// packets are padded to a power of two. Lanes of a warp execute all turns of the warp: a lane
/// without a packet in a turn repeats another packet. (Lanes that diverge are slower.)
class PacketWalk {
 public:
  template <class Coop>
  GSHMEM_FN PacketWalk(Coop coop, std::uint32_t each, int members)
      : last_{static_cast<std::uint32_t>(members) - 1, each - 1},
        bits_(highest_bit(2 * each - 1)),
        width_(static_cast<std::uint32_t>(coop.size())),
        first_(first_of_warp(coop)),
        lane_(static_cast<std::uint32_t>(coop.thread_rank()) - first_) {}
  /// Does the warp have another turn?
  GSHMEM_FN bool more() const { return first_ <= (last_.member << bits_) + last_.packet; }
  GSHMEM_FN PacketIndex next() {
    const std::uint32_t at = first_ + lane_;
    const std::uint32_t member = at >> bits_, packet = at - (member << bits_);
    first_ += width_;
    return {member < last_.member ? member : last_.member,
            packet < last_.packet ? packet : last_.packet};
  }
  /// Returns `kCount` packets at once, and how many of them are in turns of the warp.
  template <int kCount>
  GSHMEM_FN int next(PacketIndex (&at)[kCount]) {
    int count = 0;
    for (int k = 0; k < kCount; ++k) {
      if (more()) ++count;
      at[k] = next();
    }
    return count;
  }

 private:
  PacketIndex last_;
  std::uint32_t bits_, width_, first_, lane_;
};

/// How many packets each thread of a group sends, and awaits, at a time. In a block it is one: the
/// packets of a block arrive together, and fewer requests are faster. Two packets use all available
/// registers.
template <class Coop>
inline constexpr int kAtOnce = std::is_same_v<Coop, Block> ? 1 : 2;

/// Whether all members receive all of `source`, or each member its part.
enum class Give { kWhole, kParts };

/// kAligned: all data consists of whole words of 4 bytes.
template <Give kGive, bool kAligned, class Coop, class Set>
GSHMEM_FN void send_chunks(Coop coop, const TeamCall& call, Set packets) {
  const abi::Team& team = *call.team;
  Word16* const slots = packets.of(static_cast<std::uint32_t>(team.my_pe));
  PacketWalk walk(coop, packets.each, team.n_pes);
  constexpr int kCount = kAligned ? kAtOnce<Coop> : 1;
  PacketIndex at[kCount];
  GSHMEM_NO_UNROLL
  while (walk.more()) {
    const int count = walk.next(at);
    std::uint64_t chunk[kCount];
    for (int k = 0; k < kCount; ++k) {
      const int parts = kGive == Give::kParts ? static_cast<int>(at[k].member) - team.my_pe : 0;
      const std::size_t first = (packets.first() + at[k].packet) * kChunkBytes;
      const char* const from = part(call.source, parts, call.bytes) + first;
      if constexpr (kAligned) {
        const auto* const source = reinterpret_cast<const std::uint32_t*>(from);
        const std::uint32_t low = load_relaxed(source);
        const std::uint32_t high = first + 4 < call.bytes ? load_relaxed(source + 1) : 0;
        chunk[k] = std::uint64_t{high} << 32 | low;
      } else {
        chunk[k] = load_chunk(from, call.bytes - first);
      }
    }
    for (int k = 0; k < kCount; ++k) {
      if (k >= count) break;
      const int pe = team_pe(team, static_cast<int>(at[k].member));
      store_flag(peer_address(*call.state, slots + at[k].packet, pe),
                 packet_of(packets.flag, chunk[k]));
    }
  }
}
template <Give kGive, class Coop, class Set>
GSHMEM_OUTLINE void send_packets(Coop coop, const TeamCall& call, Set packets) {
  if ((reinterpret_cast<std::uintptr_t>(call.source) | call.bytes) % 4 == 0)
    return send_chunks<kGive, true>(coop, call, packets);
  send_chunks<kGive, false>(coop, call, packets);
}

/// Sends a packet without data to every member, instead of the first packet of data that this
/// member does not have.
template <class Coop, class Set>
GSHMEM_FN void send_presence(Coop coop, const TeamCall& call, Set packets) {
  const abi::Team& team = *call.team;
  Word16* const slots = packets.of(static_cast<std::uint32_t>(team.my_pe));
  PacketWalk walk(coop, 1, team.n_pes);
  GSHMEM_NO_UNROLL
  while (walk.more()) {
    const int pe = team_pe(team, static_cast<int>(walk.next().member));
    store_flag(peer_address(*call.state, slots, pe), packet_of(packets.flag, 0));
  }
}

/// Loads the packets at `at(k)` until all have the flag. `member(k)` is their sender. Returns false
/// if the wait had to end early.
template <int kCount, class At, class Member>
GSHMEM_FN bool await_packets(const TeamCall& call, std::uint32_t flag, Word16 (&packet)[kCount],
                             const At& at, const Member& member) {
  std::uint64_t started = 0;
  for (unsigned polls = 1;; ++polls) {
    int missing = -1;
    for (int k = 0; k < kCount; ++k) packet[k] = load_poll(at(k));
    for (int k = 0; k < kCount; ++k) {
      if (!has_flag(packet[k], flag)) missing = k;
    }
    if (missing < 0) return true;
    if (look_is_due(polls)) {
      if (kChecks && !members_agree(call, member(missing))) return false;
      started = wait_check(*call.state, call.name, started, team_pe(*call.team, member(missing)));
      if (started == kWaitOver) return false;
    }
    pause(polls);
  }
}

/// Stores the data of member i to part i of `dest`.
struct MovePackets {
  template <class Coop, class Set>
  GSHMEM_FN bool operator()(Coop coop, const TeamCall& call, Set packets) const {
    constexpr int kCount = kAtOnce<Coop>;
    PacketWalk walk(coop, packets.each, call.team->n_pes);
    PacketIndex at[kCount];
    GSHMEM_NO_UNROLL
    while (walk.more()) {
      const int count = walk.next(at);
      Word16 packet[kCount];
      if (!await_packets(
              call, packets.flag, packet,
              [&](int k) { return packets.of(at[k].member) + at[k].packet; },
              [&](int k) { return static_cast<int>(at[k].member); }))
        return false;
      for (int k = 0; k < kCount; ++k) {
        if (k >= count) break;
        const std::size_t first = (packets.first() + at[k].packet) * kChunkBytes;
        store_chunk(static_cast<char*>(call.dest) + at[k].member * call.bytes + first,
                    data_of(packet[k]), call.bytes - first);
      }
    }
    return true;
  }
};

/// Stores the data of `root` to `dest`; the packets of all others only show that they have entered.
/// Awaits the root's packets, then the first packet of every other member.
struct BroadcastPackets {
  int root;
  template <class Coop, class Set>
  GSHMEM_FN bool operator()(Coop coop, const TeamCall& call, Set packets) const {
    constexpr int kCount = kAtOnce<Coop>;
    // The packets are numbered as if one member had sent them all.
    PacketWalk walk(coop, packets.each + static_cast<std::uint32_t>(call.team->n_pes) - 1, 1);
    PacketIndex at[kCount];
    GSHMEM_NO_UNROLL
    while (walk.more()) {
      const int count = walk.next(at);
      const auto member = [&](int k) {
        const auto first = static_cast<std::uint32_t>(root);
        if (at[k].packet < packets.each) return first;
        const std::uint32_t other = at[k].packet - packets.each;
        return other < first ? other : other + 1;
      };
      Word16 packet[kCount];
      if (!await_packets(
              call, packets.flag, packet,
              [&](int k) {
                return packets.of(member(k)) + (at[k].packet < packets.each ? at[k].packet : 0);
              },
              [&](int k) { return static_cast<int>(member(k)); }))
        return false;
      for (int k = 0; k < kCount; ++k) {
        if (k >= count || at[k].packet >= packets.each) break;
        const std::size_t first = (packets.first() + at[k].packet) * kChunkBytes;
        store_chunk(static_cast<char*>(call.dest) + first, data_of(packet[k]), call.bytes - first);
      }
    }
    return true;
  }
};

/// Combines the data of all members in their order, by units of U: an element, or several. A thread
/// has two packets in flight. A scan also awaits the packets of later members, since the two
/// buffers need that.
template <class U, class Reducer, Result kResult = Result::kForOne>
struct CombinePackets {
  Reducer reducer;
  template <class Coop, class Set>
  GSHMEM_FN bool operator()(Coop coop, const TeamCall& call, Set packets) const {
    constexpr int kChunks = sizeof(U) / kChunkBytes, kMembers = 2 / kChunks;
    struct Chunks {
      std::uint64_t of[kChunks];
    };
    const int n = call.team->n_pes, me = call.team->my_pe;
    const int end = kResult == Result::kInclusive ? me + 1 : kResult == Result::kExclusive ? me : n;
    // PacketWalk repeats packets, too. With two chunks there are no registers left for that.
    constexpr bool kRepeats = kChunks == 1;
    const auto rank = static_cast<std::uint32_t>(coop.thread_rank());
    const std::uint32_t lane = kRepeats ? rank - first_of_warp(coop) : 0;
    const std::uint32_t width = static_cast<std::uint32_t>(coop.size());
    GSHMEM_NO_UNROLL
    for (std::uint32_t turn = (rank - lane) * kChunks; turn < packets.each;
         turn += width * kChunks) {
      const std::uint32_t at = turn + lane < packets.each ? turn + lane : packets.each - 1;
      U sum{};
      GSHMEM_NO_UNROLL
      for (int first = 0; first < n; first += kMembers) {
        const auto member = [&](int k) {
          return first + k / kChunks < n ? first + k / kChunks : first;
        };
        Word16 packet[kMembers * kChunks];
        if (!await_packets(
                call, packets.flag, packet,
                [&](int k) {
                  return packets.of(static_cast<std::uint32_t>(member(k))) + at + k % kChunks;
                },
                member))
          return false;
        for (int m = 0; m < kMembers && first + m < end; ++m) {
          Chunks value;
          for (int k = 0; k < kChunks; ++k) value.of[k] = data_of(packet[m * kChunks + k]);
          sum = first + m == 0 ? bits<U>(value) : reducer(sum, bits<U>(value));
        }
      }
      const auto result = bits<Chunks>(sum);
      for (int k = 0; k < kChunks; ++k) {
        const std::size_t from =
            (packets.first() + at + static_cast<std::uint32_t>(k)) * kChunkBytes;
        store_chunk(static_cast<char*>(call.dest) + from, result.of[k], call.bytes - from);
      }
    }
    return true;
  }
};

/// Clears the other buffer before call `number`, the last one before flags of 31 bits repeat there.
/// No member reads that buffer any more. No member sends to it before it has received packets of
/// this call.
template <class Coop>
GSHMEM_OUTLINE void clear_packets(Coop coop, const TeamCall& call, std::uint32_t number) {
  Word16* const other = packets_of(call, number + 1);
  GSHMEM_NO_UNROLL
  for (int i = coop.thread_rank(); i < static_cast<int>(abi::kPackets); i += coop.size()) {
    store_relaxed(other + i, Word16{});
  }
  fence_release_system();
  sync_lanes(coop);
  coop.sync();
}

/// The unit by which packets of elements of W are combined.
template <class W>
using PacketUnit = std::conditional_t<(sizeof(W) < kChunkBytes), std::uint64_t, W>;

/// Executes the call, of at least one byte and within the limits of the team. Returns 0, or the
/// code of the PE's first fault, on all threads of the group. `packets_of_call(number)` returns the
/// packets of the group. One thread calls `has_read()` when the group has read the number of the
/// call. It returns true if the number is to be incremented now.
template <class Coop, class Set, class Send, class Receive, class Read>
GSHMEM_FN int exchange_packets(Coop coop, const TeamCall& call, const Set& packets_of_call,
                               const Send& send, const Receive& receive, const Read& has_read) {
  coop.sync();
  std::uint32_t* const last = &slot_of(call)->packets;
  const std::uint32_t number = load_relaxed(last) + 1;
  if (((number + 1) & ~kPacketFlag) < 2) clear_packets(coop, call, number);
  const auto packets = packets_of_call(number);
  bool arrived = !call.state->nic.queues || may_sync(*call.state);
  if (arrived) send(packets);
  sync_lanes(coop);
  // All threads have read `source`, so `dest` may be the same array. They have also read the
  // number.
  coop.sync();
  if (coop.thread_rank() == 0 && has_read()) store_relaxed(last, number);
  arrived = arrived && receive(coop, call, packets);
  sync_lanes(coop);
  return coop.any(!arrived) ? fault_code(*call.state) : GSHMEMX_SUCCESS;
}
template <Give kGive, class Coop, class Receive>
GSHMEM_OUTLINE int by_packets(Coop coop, const TeamCall& call, const Receive& receive,
                              bool gives = true) {
  return exchange_packets(
      coop, call,
      [&](std::uint32_t number) {
        return Packets{packets_of(call, number), number | kPacketFlag,
                       static_cast<std::uint32_t>((call.bytes + kChunkBytes - 1) / kChunkBytes)};
      },
      [&](Packets packets) {
        if (gives) return send_packets<kGive>(coop, call, packets);
        send_presence(coop, call, packets);
      },
      receive, [] { return true; });
}

/// Does what by_packets does, with `blocks` blocks of every member. Each block has `each` packets
/// of every part, and the last block has the rest. `ticket` is a word of this PE, 0 between calls.
/// The last block that has read the number of the call increments it. Two buffers are enough, as
/// for one block: a call begins when all blocks of the previous call have ended.
template <class Coop, class Send, class Receive>
GSHMEM_FN int by_packet_slices(Coop coop, const TeamCall& call, std::uint32_t block,
                               std::uint32_t blocks, std::uint32_t each, std::uint32_t* ticket,
                               const Send& send, const Receive& receive) {
  return exchange_packets(
      coop, call,
      [&](std::uint32_t number) {
        const auto all = static_cast<std::uint32_t>((call.bytes + kChunkBytes - 1) / kChunkBytes);
        const std::uint32_t begin = block * each, left = all - begin;
        return PacketSlice{packets_of(call, number), number | kPacketFlag,
                           left < each ? left : each, all, begin};
      },
      send, receive,
      [&] {
        if (blocks == 1) return true;
        if (atomic_fetch_add(ticket, 1u) != blocks - 1) return false;
        store_relaxed(ticket, 0u);
        return true;
      });
}

}  // namespace gshmem::device

// Collectives of few bytes between members that map each other, with flags in the data: every
// member stores what it gives to others as packets, words of 4 bytes of data and a flag, and waits
// until each packet that it is to get has the flag of this call. One way over the wire, no sync.
//
// Ordering. Data and flag are in one aligned word of 8 bytes, which no access tears: relaxed stores
// and loads do, and no fence. A GPU begins no store before the branch on a load before it is
// decided; on the CPU store_flag releases and load_poll acquires.
//
// Two buffers suffice, for even and odd numbers of calls. Every member sends packets to every one,
// itself included. A member that begins call n + 2 has got all packets of call n + 1. Their senders
// had got those of call n before they sent any of n + 1. So nobody reads the packets of n any more
// when those of n + 2 come to the same place. In a broadcast those who give nothing send a packet
// of no data. Calls of no bytes cannot be made so.
//
// A flag has 31 bits of the number of its call. Packets of calls 2^31 earlier may be where shorter
// calls have not been since: before flags come again, each buffer is cleared (clear_packets).
#pragma once

#include "team_call.h"

namespace gshmem::device {

/// The packets of one call: from member i those at i * words, at the same place of every heap.
struct Packets {
  std::uint64_t* here;
  std::uint32_t flag, words;  ///< words: from one member for one other
  GSHMEM_FN std::uint64_t* of(std::uint32_t member) const {
    return here + member * std::size_t{words};
  }
};
GSHMEM_FN std::uint64_t* packets_of(const TeamCall& call, std::uint32_t number) {
  return reinterpret_cast<std::uint64_t*>(call.state->heap + call.state->heap_bytes) +
         (std::size_t{team_index(call.team->handle)} * 2 + number % 2) * abi::kPackets;
}
inline constexpr std::uint32_t kPacketFlag = 1u << 31;  ///< set in each: none is 0
inline constexpr std::size_t kPieceBytes = 4;

/// Data of a packet: `left` bytes and at most 4, of any alignment.
GSHMEM_FN std::uint32_t load_piece(const char* from, std::size_t left) {
  if (left >= kPieceBytes && is_aligned<std::uint32_t>(from))
    return load_relaxed(reinterpret_cast<const std::uint32_t*>(from));
  std::uint32_t piece = 0;
  GSHMEM_NO_UNROLL
  for (std::size_t i = 0; i < kPieceBytes && i < left; ++i) {
    const std::uint32_t byte = load_relaxed(reinterpret_cast<const std::uint8_t*>(from) + i);
    piece |= byte << 8 * i;
  }
  return piece;
}
GSHMEM_FN void store_piece(char* to, std::uint32_t piece, std::size_t left) {
  if (left >= kPieceBytes && is_aligned<std::uint32_t>(to))
    return store_relaxed(reinterpret_cast<std::uint32_t*>(to), piece);
  GSHMEM_NO_UNROLL
  for (std::size_t i = 0; i < kPieceBytes && i < left; ++i) {
    store_relaxed(reinterpret_cast<std::uint8_t*>(to) + i,
                  static_cast<std::uint8_t>(piece >> 8 * i));
  }
}

/// A packet, and whose it is; and the next one of a thread, without a division.
struct PacketPlace {
  std::uint32_t member, packet;
};
class PacketWalk {
 public:
  template <class Coop>
  GSHMEM_FN PacketWalk(Coop coop, std::uint32_t words)
      : words_(words),
        step_(place(static_cast<std::uint32_t>(coop.size()))),
        next_(place(static_cast<std::uint32_t>(coop.thread_rank()))) {}
  GSHMEM_FN PacketPlace next() {
    const PacketPlace now = next_;
    next_.member += step_.member;
    next_.packet += step_.packet;
    if (next_.packet >= words_) {
      next_.packet -= words_;
      ++next_.member;
    }
    return now;
  }
  /// `count` at once. False: there are none. Those after the last one are the first one again.
  template <int kCount>
  GSHMEM_FN bool next(PacketPlace (&at)[kCount], std::uint32_t members) {
    for (int k = 0; k < kCount; ++k) {
      at[k] = next();
      if (at[k].member >= members) at[k] = at[0];
    }
    return at[0].member < members;
  }

 private:
  GSHMEM_FN PacketPlace place(std::uint32_t packet) const {
    return {packet / words_, packet % words_};
  }
  std::uint32_t words_;
  PacketPlace step_, next_;
};
GSHMEM_FN bool is_same(PacketPlace a, PacketPlace b) {
  return a.member == b.member && a.packet == b.packet;
}

/// To all members the same of `source`, or to each its part.
enum class Give { kWhole, kParts };

/// A thread has kAtOnce loads in flight. kAligned: all data are whole pieces.
template <Give kGive, int kAtOnce, bool kAligned, class Coop>
GSHMEM_FN void send_pieces(Coop coop, const TeamCall& call, Packets packets) {
  const abi::Team& team = *call.team;
  std::uint64_t* const place = packets.of(static_cast<std::uint32_t>(team.my_pe));
  PacketWalk walk(coop, packets.words);
  PacketPlace at[kAtOnce];
  GSHMEM_NO_UNROLL
  while (walk.next(at, static_cast<std::uint32_t>(team.n_pes))) {
    std::uint32_t piece[kAtOnce];
    for (int k = 0; k < kAtOnce; ++k) {
      const int packet = static_cast<int>(at[k].packet);
      const int parts = kGive == Give::kParts ? static_cast<int>(at[k].member) - team.my_pe : 0;
      if constexpr (kAligned) {
        const auto* const source = static_cast<const std::uint32_t*>(call.source);
        piece[k] = load_relaxed(source + (parts * static_cast<int>(packets.words) + packet));
      } else {
        const std::size_t first = at[k].packet * kPieceBytes;
        piece[k] = load_piece(part(call.source, parts, call.bytes) + first, call.bytes - first);
      }
    }
    for (int k = 0; k < kAtOnce; ++k) {
      if (k > 0 && is_same(at[k], at[0])) break;
      const int pe = team_pe(team, static_cast<int>(at[k].member));
      store_flag(peer_address(*call.state, place + at[k].packet, pe),
                 std::uint64_t{packets.flag} << 32 | piece[k]);
    }
  }
}
template <Give kGive, int kAtOnce, class Coop>
GSHMEM_OUTLINE void send_packets(Coop coop, const TeamCall& call, Packets packets) {
  if ((reinterpret_cast<std::uintptr_t>(call.source) | call.bytes) % kPieceBytes == 0)
    return send_pieces<kGive, kAtOnce, true>(coop, call, packets);
  send_pieces<kGive, 1, false>(coop, call, packets);
}

/// To every member one of no data, in place of the first one of what this member does not give.
template <class Coop>
GSHMEM_FN void send_presence(Coop coop, const TeamCall& call, Packets packets) {
  const abi::Team& team = *call.team;
  std::uint64_t* const place = packets.of(static_cast<std::uint32_t>(team.my_pe));
  GSHMEM_NO_UNROLL
  for (int i = coop.thread_rank(); i < team.n_pes; i += coop.size()) {
    store_flag(peer_address(*call.state, place, team_pe(team, i)),
               std::uint64_t{packets.flag} << 32);
  }
}

/// Loads the packets at `at(k)` until all have the flag. `member(k)` sends them. False where the
/// wait had to end.
template <int kCount, class At, class Member>
GSHMEM_FN bool await_packets(const TeamCall& call, std::uint32_t flag,
                             std::uint64_t (&packet)[kCount], const At& at, const Member& member) {
  std::uint64_t started = 0;
  for (unsigned polls = 1;; ++polls) {
    int missing = -1;
    for (int k = 0; k < kCount; ++k) packet[k] = load_poll(at(k));
    for (int k = 0; k < kCount; ++k) {
      if (packet[k] >> 32 != flag) missing = k;
    }
    if (missing < 0) return true;
    if (look_is_due(polls)) {
      started = wait_check(*call.state, call.name, started, team_pe(*call.team, member(missing)));
      if (started == kWaitOver) return false;
    }
    pause(polls);
  }
}

/// Loads in flight for each thread of a group that waits for `packets`: four, and one in a block
/// with few packets for each. Those come together, and asking for less is faster (one H100,
/// fcollect of 512 bytes: 3.15 us for 4.38; of 4 KiB, with 8 for each: 7.5 for 7.1).
template <class Coop, class Take>
GSHMEM_FN bool take_packets(Coop coop, std::uint32_t packets, const Take& take) {
  const bool few = packets <= 3 * static_cast<std::uint32_t>(coop.size());
  if (std::is_same_v<Coop, Block> && few) return take(std::integral_constant<int, 1>{});
  return take(std::integral_constant<int, 4>{});
}

/// What member i has sent goes to part i of `dest`.
struct MovePackets {
  static constexpr int kSends = 4;  ///< loads in flight where a member sends
  template <class Coop>
  GSHMEM_FN bool operator()(Coop coop, const TeamCall& call, Packets packets) const {
    const std::uint32_t n = static_cast<std::uint32_t>(call.team->n_pes);
    return take_packets(coop, packets.words * n, [&](auto at_once) {
      constexpr int kAtOnce = decltype(at_once)::value;
      PacketWalk walk(coop, packets.words);
      PacketPlace at[kAtOnce];
      GSHMEM_NO_UNROLL
      while (walk.next(at, n)) {
        std::uint64_t packet[kAtOnce];
        if (!await_packets(
                call, packets.flag, packet,
                [&](int k) { return packets.of(at[k].member) + at[k].packet; },
                [&](int k) { return static_cast<int>(at[k].member); }))
          return false;
        for (int k = 0; k < kAtOnce; ++k) {
          const std::size_t first = at[k].packet * kPieceBytes;
          store_piece(static_cast<char*>(call.dest) + at[k].member * call.bytes + first,
                      static_cast<std::uint32_t>(packet[k]), call.bytes - first);
        }
      }
      return true;
    });
  }
};

/// What `root` has sent goes to `dest`; all others have sent that they are here. What is awaited:
/// the root's packets, then the first one of every member.
struct BroadcastPackets {
  static constexpr int kSends = 4;
  int root;
  template <class Coop>
  GSHMEM_FN bool operator()(Coop coop, const TeamCall& call, Packets packets) const {
    const std::uint32_t width = static_cast<std::uint32_t>(coop.size());
    const std::uint32_t end = packets.words + static_cast<std::uint32_t>(call.team->n_pes);
    return take_packets(coop, end, [&](auto at_once) {
      constexpr int kAtOnce = decltype(at_once)::value;
      GSHMEM_NO_UNROLL
      for (std::uint32_t first = static_cast<std::uint32_t>(coop.thread_rank()); first < end;
           first += kAtOnce * width) {
        const auto place = [&](int k) -> PacketPlace {
          std::uint32_t at = first + static_cast<std::uint32_t>(k) * width;
          if (at >= end) at = first;
          return at < packets.words ? PacketPlace{static_cast<std::uint32_t>(root), at}
                                    : PacketPlace{at - packets.words, 0};
        };
        std::uint64_t packet[kAtOnce];
        if (!await_packets(
                call, packets.flag, packet,
                [&](int k) { return packets.of(place(k).member) + place(k).packet; },
                [&](int k) { return static_cast<int>(place(k).member); }))
          return false;
        for (int k = 0; k < kAtOnce; ++k) {
          const std::uint32_t at = first + static_cast<std::uint32_t>(k) * width;
          if (at >= packets.words) break;
          store_piece(static_cast<char*>(call.dest) + at * kPieceBytes,
                      static_cast<std::uint32_t>(packet[k]), call.bytes - at * kPieceBytes);
        }
      }
      return true;
    });
  }
};

/// What all members have sent is combined in their order, by units of U: an element, or several.
/// A thread has 8 loads in flight.
template <class U, class Reducer>
struct CombinePackets {
  static constexpr int kSends = 3;  // for the registers of reductions
  Reducer reducer;
  template <class Coop>
  GSHMEM_FN bool operator()(Coop coop, const TeamCall& call, Packets packets) const {
    constexpr int kPieces = sizeof(U) / kPieceBytes, kMembers = kPieces < 4 ? 4 / kPieces : 1;
    struct Pieces {
      std::uint32_t of[kPieces];
    };
    const int n = call.team->n_pes;
    const std::uint32_t width = static_cast<std::uint32_t>(coop.size());
    GSHMEM_NO_UNROLL
    for (std::uint32_t at = static_cast<std::uint32_t>(coop.thread_rank()) * kPieces;
         at < packets.words; at += width * kPieces) {
      U sum{};
      GSHMEM_NO_UNROLL
      for (int first = 0; first < n; first += kMembers) {
        const auto member = [&](int k) {
          return first + k / kPieces < n ? first + k / kPieces : first;
        };
        std::uint64_t packet[kMembers * kPieces];
        if (!await_packets(
                call, packets.flag, packet,
                [&](int k) {
                  return packets.of(static_cast<std::uint32_t>(member(k))) + at + k % kPieces;
                },
                member))
          return false;
        for (int m = 0; m < kMembers && first + m < n; ++m) {
          Pieces value;
          for (int k = 0; k < kPieces; ++k)
            value.of[k] = static_cast<std::uint32_t>(packet[m * kPieces + k]);
          sum = first + m == 0 ? bits<U>(value) : reducer(sum, bits<U>(value));
        }
      }
      const auto result = bits<Pieces>(sum);
      for (int k = 0; k < kPieces; ++k) {
        const std::size_t from = (at + static_cast<std::uint32_t>(k)) * kPieceBytes;
        store_piece(static_cast<char*>(call.dest) + from, result.of[k], call.bytes - from);
      }
    }
    return true;
  }
};

/// Before call `number`, after which flags of 31 bits begin anew in the other buffer: clears that.
/// Nobody reads there any more, and nobody sends there before it has got packets of this call.
template <class Coop>
GSHMEM_OUTLINE void clear_packets(Coop coop, const TeamCall& call, std::uint32_t number) {
  std::uint64_t* const other = packets_of(call, number + 1);
  GSHMEM_NO_UNROLL
  for (int i = coop.thread_rank(); i < static_cast<int>(abi::kPackets); i += coop.size()) {
    store_relaxed(other + i, std::uint64_t{0});
  }
  fence_release_system();
  meet_lanes(coop);
  coop.sync();
}

/// What packets of elements of W are combined by.
template <class W>
using PacketUnit = std::conditional_t<(sizeof(W) < kPieceBytes), std::uint32_t, W>;

/// The call, of at least one byte and within the limits of the team. 0, or the code of the PE's
/// first fault, on all threads of the group.
template <Give kGive, class Coop, class Receive>
GSHMEM_OUTLINE int by_packets(Coop coop, const TeamCall& call, const Receive& receive,
                              bool gives = true) {
  coop.sync();
  std::uint32_t* const last = &call.state->team_slots[team_index(call.team->handle)].packets;
  const std::uint32_t number = load_relaxed(last) + 1;
  if (((number + 1) & ~kPacketFlag) < 2) clear_packets(coop, call, number);
  const Packets packets{packets_of(call, number), number | kPacketFlag,
                        static_cast<std::uint32_t>((call.bytes + kPieceBytes - 1) / kPieceBytes)};
  bool arrived = !call.state->nic.queues || may_meet(*call.state);
  if (arrived && gives) send_packets<kGive, Receive::kSends>(coop, call, packets);
  if (arrived && !gives) send_presence(coop, call, packets);
  meet_lanes(coop);
  coop.sync();  // all of `source` is read: `dest` may be the same. And all have read the number.
  if (coop.thread_rank() == 0) store_relaxed(last, number);
  arrived = arrived && receive(coop, call, packets);
  meet_lanes(coop);
  return coop.any(!arrived) ? fault_code(*call.state) : GSHMEMX_SUCCESS;
}

}  // namespace gshmem::device

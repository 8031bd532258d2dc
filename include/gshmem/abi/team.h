// A team as device code sees it: its members, and the words by which they synchronize. The host
// fills it (host/runtime/teams.h); device/pe/team.h and device/ops/sync.h read it. Invariant: an
// entry changes only while no call of its PE uses its team.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gshmem::abi {

/// The maximum number of PEs of a job.
inline constexpr int kMaxPes = 65536;

/// The maximum number of members of a flat team, if all of them map each other, and otherwise. In a
/// flat team every member signals every other one. In a larger one a member signals one other in
/// each of the rounds 0, 1, ... while 2^round is below the number of members.
inline constexpr int kFlatPes = 64, kFlatPesByNetwork = 8;
inline constexpr int kSyncRounds = 16;
static_assert(1 << kSyncRounds == kMaxPes && kSyncRounds <= kFlatPes);

/// The number of 32-bit words that host threads of all members combine by one call
/// (host/runtime/teams.h).
inline constexpr int kAgreeWords = 10;

/// A collective as its caller made it, noted if arguments are checked.
struct CallNote {
  std::uint64_t key;    ///< 0: it is being written
  std::uint64_t what;   ///< operation and root
  std::uint64_t bytes;  ///< for one member
  std::uint64_t dest;   ///< its offset in the heap; 0: none
};

/// The words by which the members of one team synchronize, at the same offset of each of their
/// heaps. The numbers of syncs begin with 1 in every new team, whose members have cleared the slot
/// together.
struct SyncSlot {
  alignas(128) std::uint64_t epoch;  ///< number of syncs completed by this PE, which alone uses it
  /// Number of collectives by packets that this PE has begun; it alone uses it.
  std::uint32_t packets;
  /// `arrived[n % 2][i]` has the low bits of n. Member i stores them when it enters sync n; in a
  /// larger team, the member that signals this one in round i stores them. There are two words,
  /// because flags that use different network queues may overtake each other: n + 2 is sent when
  /// all members have sent n + 1, and so have seen n.
  alignas(128) std::uint32_t arrived[2][kFlatPes];
  /// For host threads, used in the same way: the number of the call in the upper half, a value in
  /// the lower half.
  alignas(128) std::uint64_t agreed[2][kSyncRounds][kAgreeWords];
  /// The bytes that members before this one contribute to a collect, with kCounted set. The member
  /// that signals this one in round i stores them. They are reset to 0 after they were read. Only
  /// this PE uses `first`, their sum.
  alignas(128) std::uint64_t counted[kSyncRounds];
  std::uint64_t first;
  /// The last two collectives of this PE, for members that check whether theirs is the same
  /// (device/collective/collective_check.h), and the number of all that it has noted, which only
  /// this PE uses.
  CallNote notes[2];
  /// The notes of the member before this one, which puts them here if it is not mapped.
  CallNote told[2];
  std::uint32_t noted;
};
inline constexpr std::uint64_t kCounted = std::uint64_t{1} << 63;
static_assert(sizeof(SyncSlot) == 3584);

/// Limits for algorithms that depend on the bytes of a collective. Most are the size up to which an
/// algorithm is used. One is the maximum number of packets of a call for each thread that one
/// thread or warp sends. Others are the sizes from which teams in two levels use two levels, and
/// from which calls of host threads and streams use many blocks.
enum class Limit : int {
  kAlltoallPackets,
  kFcollectPackets,
  kBroadcastPackets,
  kReducePackets,
  kReduceOneShot,
  kThreadPackets,
  kTwoLevels,
  kGrid,
  kGridOneShot,
  kGridPackets
};
inline constexpr int kLimits = 10;

/// Packets of collectives (device/collective/packets.h): the maximum number of members, the packets
/// in each of a team's two buffers, the bytes of a packet and of its data, and the number of
/// entries with such buffers, which are the first ones. The buffers begin at the end of the heap
/// that programs can allocate.
inline constexpr int kPacketPes = 16;
inline constexpr std::uint32_t kPackets = 8192, kPacketBytes = 16, kPacketData = 8,
                               kPacketTeams = 32;
inline constexpr std::uint32_t kGroupPackets = 2048;  ///< maximum for a call by one group
inline constexpr std::uint64_t kTeamPacketBytes = std::uint64_t{2} * kPackets * kPacketBytes;

/// The maximum number of blocks of a collective by many blocks, and the words by which block b of a
/// member synchronizes with block b of the others: `arrived[b][i]` is how often member i's block b
/// has arrived. Those of the teams that have packets follow all packets.
inline constexpr std::uint32_t kGridBlocks = 64;
struct GridSlot {
  alignas(128) std::uint32_t arrived[kGridBlocks][kPacketPes];
  std::uint32_t epoch[kGridBlocks];  ///< how often this PE's blocks have arrived; it alone uses it
  /// Number of blocks that have read the number of a call by packets.
  alignas(128) std::uint32_t ticket;
};
static_assert(sizeof(GridSlot) == 4480);

/// The low bits of a team's handle are the number of its entry. The handles of the predefined
/// teams, 0 to 3, have no other bits.
inline constexpr std::uint32_t kTeamIndexBits = 16;
/// NVSHMEM's predefined handles are below this number. They include, in addition to ours, those
/// that NVSHMEM keeps for itself, and that of multicast (nvshmem.h). No other team has one of
/// those, for the upper bits of its handle are not 0.
inline constexpr int kNvshmemTeams = 7;

/// One team. Member i is PE start + i * stride, or entry i of `members`.
struct Team {
  const std::int32_t* members;  ///< null: start and stride give the members
  std::int32_t start, stride;
  std::int32_t n_pes, my_pe;
  std::uint32_t handle;      ///< an invalid handle while the entry has no team
  std::uint32_t flat;        ///< 1: every member signals every other one
  std::uint32_t mapped = 0;  ///< 1: all members map each other
  /// By Limit: the maximum bytes that one member puts to another; 0 = never.
  std::uint32_t limits[kLimits] = {};
  /// For a team in two levels: the number of members of each domain, whose PEs map each other and
  /// no other member, and the distance of consecutive members of a domain: 1, or the number of
  /// domains. Otherwise 0.
  std::int32_t inner = 0, inner_stride = 0;
  std::int32_t reserved = 0;
};
static_assert(std::is_trivially_copyable_v<Team> && sizeof(Team) == 88);

}  // namespace gshmem::abi

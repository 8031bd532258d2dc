// A team as device code sees it: its members, and the words by which they synchronize. Filled by
// the host (host/runtime/teams.h), read by device/pe/team.h and device/ops/sync.h. Invariant: an
// entry changes only while no call of its PE is on its team.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gshmem::abi {

/// Most PEs that a job may have.
inline constexpr int kMaxPes = 65536;

/// Members of a flat team at most, where all of them map each other, and elsewhere. In a flat team
/// every member tells every other one. In a larger one a member tells one other in each of the
/// rounds 0, 1, ... while 2^round is below the number of members.
inline constexpr int kFlatPes = 64, kFlatPesByNetwork = 8;
inline constexpr int kSyncRounds = 16;
static_assert(1 << kSyncRounds == kMaxPes && kSyncRounds <= kFlatPes);

/// Words of 32 bits that host threads of all members combine by one call (host/runtime/teams.h).
inline constexpr int kAgreeWords = 10;

/// A collective as its caller made it, where arguments are checked.
struct CallNote {
  std::uint64_t key;    ///< 0: it is being written
  std::uint64_t what;   ///< operation and root
  std::uint64_t bytes;  ///< for one member
};

/// What the members of one team synchronize by, at the same place of each of their heaps. Numbers
/// of syncs begin with 1 in every new team, whose members have cleared the slot together.
struct SyncSlot {
  alignas(128) std::uint64_t epoch;  ///< syncs completed by this PE; touched by this PE only
  std::uint32_t packets;             ///< likewise: collectives by packets that it has begun
  /// `arrived[n % 2][i]`: the low bits of n, from member i when it enters sync n, or in round i
  /// from the one member that tells this one then. Two words, because flags that go by the network
  /// by different queues may overtake each other: n + 2 is told when all members have told n + 1,
  /// and so have seen n.
  alignas(128) std::uint32_t arrived[2][kFlatPes];
  /// Of host threads, likewise: the number of the call in the upper half, a value in the lower one.
  alignas(128) std::uint64_t agreed[2][kSyncRounds][kAgreeWords];
  /// Bytes that members before this one give to a collect, kCounted set, from the one member that
  /// tells it in round i; 0 again when it has been read. And their sum, touched by this PE only.
  alignas(128) std::uint64_t counted[kSyncRounds];
  std::uint64_t first;
  /// The last two collectives of this PE, for members that look whether theirs is the same
  /// (device/collective/collective_check.h), and how many it has noted; touched by this PE only.
  CallNote notes[2];
  std::uint32_t noted;
};
inline constexpr std::uint64_t kCounted = std::uint64_t{1} << 63;
static_assert(sizeof(SyncSlot) == 3456);

/// Collectives whose algorithm depends on their bytes, and which one up to a limit. Packets of a
/// call for each thread, at most, that one thread or warp sends. And the bytes from which teams in
/// two levels use these, and those of the calls of host threads and streams by many blocks.
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

/// Packets of collectives (device/collective/packets.h): members at most, packets in each of a
/// team's two buffers, bytes of one and of its data, and entries with such buffers, which are the
/// first ones. They begin at the end of the heap that programs can allocate.
inline constexpr int kPacketPes = 16;
inline constexpr std::uint32_t kPackets = 8192, kPacketBytes = 16, kPacketData = 8,
                               kPacketTeams = 32;
inline constexpr std::uint32_t kGroupPackets = 2048;  ///< of a call by one group, at most
inline constexpr std::uint64_t kTeamPacketBytes = std::uint64_t{2} * kPackets * kPacketBytes;

/// Blocks of a collective by many blocks, at most, and what block b of a member synchronizes by
/// with block b of the others: `arrived[b][i]` is how often member i's block b has come. Those of
/// the teams that have packets follow all packets.
inline constexpr std::uint32_t kGridBlocks = 64;
struct GridSlot {
  alignas(128) std::uint32_t arrived[kGridBlocks][kPacketPes];
  std::uint32_t epoch[kGridBlocks];   ///< how often this PE's blocks have come; touched by it only
  alignas(128) std::uint32_t ticket;  ///< blocks that have read the number of a call by packets
};
static_assert(sizeof(GridSlot) == 4480);

/// The low bits of a team's handle are the number of its entry. Of the predefined teams they are
/// all: 0 to 3.
inline constexpr std::uint32_t kTeamIndexBits = 16;
/// NVSHMEM's predefined handles are below this one: beside ours those that it keeps to itself, and
/// that of multicast (nvshmem.h). No team ever has one of those, for the upper bits of a made one
/// are not 0.
inline constexpr int kNvshmemTeams = 7;

/// One team. Member i is PE start + i * stride, or the one that `members` has at that place.
struct Team {
  const std::int32_t* members;  ///< null: every PE at the place of its number
  std::int32_t start, stride;
  std::int32_t n_pes, my_pe;
  std::uint32_t handle;      ///< that of no team while the entry has none
  std::uint32_t flat;        ///< 1: every member tells every other one
  std::uint32_t mapped = 0;  ///< 1: all members map each other
  /// By Limit: bytes that one member gives to another one, at most; 0 = never.
  std::uint32_t limits[kLimits] = {};
  /// Of a team in two levels: members of each domain, whose PEs map each other and no other member,
  /// and the distance of two of them that follow each other: 1, or the number of domains. Else 0.
  std::int32_t inner = 0, inner_stride = 0;
  std::int32_t reserved = 0;
};
static_assert(std::is_trivially_copyable_v<Team> && sizeof(Team) == 88);

}  // namespace gshmem::abi

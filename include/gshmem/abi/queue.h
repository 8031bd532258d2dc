// Work queues as device code sees them: where a queue lies, its cursors, and the set that a PE has.
// Filled by the host (transport/nic/queue_set.cpp), written by device/network/queue.h, and consumed
// by a NIC, the soft NIC or the libfabric executor. Invariant: a QueueView is read-only while the
// PE is initialized, but for `number` where queues are connected on first use; what changes is at
// `cursor`.
#pragma once

#include "mlx5.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gshmem::abi {

/// Depths are powers of two in this range, in entries of 64 bytes (WQEBBs). Above 32768 the
/// 16-bit counters of doorbells and completions would be ambiguous.
inline constexpr std::uint32_t kMinQueueDepth = 64, kMaxQueueDepth = 32768;

/// Counts entries from the queue's beginning; 64 bits never wrap. In the order reserved >= ready >=
/// done - 1. Each on a line of its own: different threads write them.
struct QueueCursor {
  alignas(128) std::uint64_t reserved;  ///< entries handed out to writers
  std::uint64_t room;  ///< exclusive queues: so many may be, as far as the user has looked
  /// What has been published, in one word, since one must not be seen without the other: the
  /// entries before the turn of the next writer, and how many of them the last WQE has
  /// (PublishedWord).
  alignas(128) std::uint64_t ready;
  alignas(128) std::uint64_t done;  ///< WQEs whose first entry is before this one are complete
  /// 0, or of the first error that anyone saw: hardware syndrome, its type and vendor syndrome
  /// (bits 63 to 40), 1 (bit 32), counter (bits 31 to 16), opcode and syndrome.
  std::uint64_t error;
  std::uint64_t flushed;  ///< `ready` after the last READ that a quiet has posted (flush_rails)
};
static_assert(sizeof(QueueCursor) == 384);

/// QueueCursor::ready. Its low bits are the entries of the last WQE less one (a WQE has at most 63
/// units of 16 bytes, 16 entries), the rest is the count of all.
struct PublishedWord {
  static constexpr std::uint32_t kBits = 4;
  GSHMEM_ABI_FN static std::uint64_t make(std::uint64_t end, std::uint32_t last_entries) {
    return end << kBits | (last_entries - 1);
  }
  /// Entries; the turn is that of the writer whose first one this is.
  GSHMEM_ABI_FN static std::uint64_t end(std::uint64_t word) { return word >> kBits; }
  /// 1 + the first entry of the last WQE: what a wait for everything waits for.
  GSHMEM_ABI_FN static std::uint64_t target(std::uint64_t word) {
    return (word >> kBits) - (word & ((1u << kBits) - 1));
  }
};

/// Where the entries and the doorbell record lie decides how far a writer's release must reach.
enum class QueueMemory : std::uint32_t { kHost, kGpu };
/// Granularity in which NICs map GPU memory.
inline constexpr std::uint64_t kGpuPageBytes = 64 * 1024;
/// An exclusive queue has one thread at a time: no atomics.
enum class QueueKind : std::uint32_t { kShared, kExclusive };

/// One queue: a reliable connection to one PE.
struct alignas(64) QueueView {
  // Loaded at once: where entries go.
  char* entries = nullptr;   ///< `depth` entries of 64 bytes
  std::uint32_t number = 0;  ///< queue pair number, host order; 0: not connected yet (FirstUse)
  Be32 remote_key;           ///< of the heap there; addresses are offsets into the heaps
  // Loaded at once: where it is said that they are there.
  std::uint64_t* doorbell = nullptr;  ///< UAR register, or a word that a host thread forwards
  Be32* send_record = nullptr;        ///< send counter of the doorbell record
  const Be32* completion = nullptr;   ///< last word of the one CQE of the collapsed CQ
  QueueCursor* cursor = nullptr;
  Be32 local_key;             ///< of the heap here
  std::uint16_t pe = 0xffff;  ///< at the other end
  std::uint8_t nic = 0;       ///< number of the one here, among those that this PE uses
  std::uint8_t rail = 0;      ///< number of the one there, among those of that PE
  std::uint32_t index = 0;    ///< in the array of queues of its context
  Be32 atomic_key;            ///< of the heap there, by which nothing passes writes before it
};
static_assert(offsetof(QueueView, doorbell) == 16 && offsetof(QueueView, completion) == 32);
static_assert(sizeof(QueueView) == 64);

/// What a PE is told of memory of another one, for a NIC there; as in QueueView.
struct RemoteKeys {
  Be32 payload, atomic;
};

/// Which of the queues to a PE a thread uses (GSHMEM_QP_MAP). A thread always gets the same one, or
/// what it does would have no order; with kSm only as long as it stays on its SM. Every other value
/// is the queue that all threads use, by its number: 0 is kPe.
enum class QueueMap : std::uint32_t { kPe = 0, kBlock = 256, kWarp, kSm };

/// Of a queue that is connected when somebody first posts to it, in host memory. A writer that
/// finds no number in the view asks, sets Control::asked, and waits for the number here.
struct FirstUse {
  std::uint32_t asked;   ///< 1: by device code
  std::uint32_t number;  ///< by the host, when both ends are connected
};

/// What a NIC does differently from the next.
enum NicFlags : std::uint32_t {
  kNicFetchedBig = 1,  ///< 8-byte results of atomics come back big-endian
  kNicReadNeedsDump =
      2,  ///< what READs and atomics fetch may trail the completion; after a DUMP it may not
  kNicReadsRecord = 4,  ///< the NIC also looks at the doorbell record
  /// After a completion, data may be on its way to memory where another NIC or a PE that maps it
  /// reads already: a quiet waits until it is there (flush_rails). Not for queues of one thread, to
  /// which others may not post.
  kNicFlush = 8,
};

/// How device code rings a queue's doorbell.
enum class Bell : std::uint32_t {
  kWord,           ///< a word in memory, of which only the newest value counts
  kRecordWord,     ///< such a word, before which the doorbell record must be visible
  kRegister,       ///< a register of a NIC that reads the record only after an error
  kRegisterAlone,  ///< a register of a NIC that has no record
};

constexpr bool is_register(Bell bell) {
  return bell == Bell::kRegister || bell == Bell::kRegisterAlone;
}

/// Entries between two doorbells at most. A reservation takes at most half the depth
/// (device/network/queue.h), and the longest WQE 16 entries: depth / 4 + depth / 2 + 16 <= depth.
/// Not more than a warp has threads: who waits for room then soon finds some.
constexpr std::uint32_t batch_of(std::uint32_t depth) { return depth / 4 < 32 ? depth / 4 : 32; }

/// What all queues of a NicView have in common.
struct QueueShape {
  std::uint32_t depth = kMinQueueDepth;            ///< entries, a power of two
  std::uint32_t batch = batch_of(kMinQueueDepth);  ///< a power of two
  QueueMemory memory = QueueMemory::kHost;
  QueueKind kind = QueueKind::kShared;
  Bell bell = Bell::kWord;
  std::uint64_t heap_end = std::uint64_t{1} << 63;  ///< a power of two: offsets before it have the
                                                    ///< keys of the queue
};

/// A QueueShape in one word that device code can keep at hand.
struct QueueTraits {
  static constexpr std::uint32_t kExclusive = 1, kGpuMemory = 2, kRecordFirst = 4, kRegister = 8,
                                 kNoRecord = 16;
  static constexpr std::uint32_t kNever = 1u << 31;                  ///< in none
  static constexpr std::uint32_t kDepthShift = 8, kBatchShift = 16;  ///< of their logarithms
  static constexpr std::uint32_t kHeapShift = 24;                    ///< of 63 less a logarithm
  GSHMEM_ABI_FN static std::uint32_t depth(std::uint32_t traits) {
    return 1u << (traits >> kDepthShift & 0xff);
  }
  GSHMEM_ABI_FN static std::uint32_t batch(std::uint32_t traits) {
    return 1u << (traits >> kBatchShift & 0xff);
  }
  /// An offset is that of registered memory: at or after a power of two before which the heap ends.
  /// By the traits, because whoever posts has them at hand.
  GSHMEM_ABI_FN static bool is_beyond(std::uint32_t traits, std::uint64_t offset) {
    return offset >> (63 - (traits >> kHeapShift & 0x3f)) != 0;
  }
  static constexpr std::uint32_t of(const QueueShape& shape) {
    std::uint32_t traits = 0;
    if (shape.kind == QueueKind::kExclusive) traits |= kExclusive;
    if (shape.memory == QueueMemory::kGpu) traits |= kGpuMemory;
    if (shape.bell == Bell::kRecordWord) traits |= kRecordFirst;
    if (is_register(shape.bell)) traits |= kRegister;
    if (shape.bell == Bell::kRegisterAlone) traits |= kNoRecord;
    for (std::uint64_t h = shape.heap_end; h < std::uint64_t{1} << 63; h *= 2)
      traits += 1u << kHeapShift;
    for (std::uint32_t d = shape.depth; d > 1; d /= 2) traits += 1u << kDepthShift;
    for (std::uint32_t b = shape.batch; b > 1; b /= 2) traits += 1u << kBatchShift;
    return traits;
  }
};

/// Queues of a PE, of the default context or of another one: those to PE p are
/// [p * per_pe, (p + 1) * per_pe). The nth of them goes to a NIC of p that the number n % rails
/// decides; 0 is the NIC by which all atomics arrive there, because those that two NICs execute are
/// not atomic to each other.
struct NicView {
  const QueueView* queues = nullptr;  ///< null: no network path
  QueueCursor* cursors = nullptr;     ///< of all queues, in the same order
  std::uint32_t* used = nullptr;      ///< bitmap: queues that have ever been written to
  FirstUse* first_use = nullptr;      ///< of all queues, in the same order; null: all are connected
  std::uint32_t per_pe = 0;
  std::uint32_t count = 0;  ///< of all queues
  QueueMap map = QueueMap::kBlock;
  std::uint32_t flags = 0;        ///< NicFlags
  std::uint32_t max_message = 0;  ///< bytes of one WQE
  std::uint32_t traits = 0;       ///< QueueTraits
  std::uint32_t rails = 1;        ///< per_pe is a multiple of it
};
static_assert(std::is_trivially_copyable_v<QueueView> && std::is_trivially_copyable_v<NicView>);
static_assert(sizeof(NicView) == 64);

}  // namespace gshmem::abi

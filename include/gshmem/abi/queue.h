// Work queues as device code sees them: the addresses of a queue, its cursors, and the queues of a
// PE. The host fills them (transport/nic/queue_set.cpp), device/network/queue.h writes entries, and
// a NIC, the soft NIC or the libfabric executor consumes them. Invariant: a QueueView is read-only
// while the PE is initialized, except `number` if queues are connected on first use; mutable data
// is at `cursor`.
#pragma once

#include "mlx5.h"

#include <cstddef>
#include <cstdint>

namespace gshmem::abi {

/// Depths are powers of two in this range, in entries of 64 bytes (WQEBBs). Above 32768 the 16-bit
/// counters of doorbells and completions would be ambiguous.
inline constexpr std::uint32_t kMinQueueDepth = 64, kMaxQueueDepth = 32768;

/// Counts entries since the queue was made; 64 bits never wrap. Entries are reserved, published and
/// done in this order. Each counter has a cache line of its own: different threads write them.
struct QueueCursor {
  alignas(128) std::uint64_t reserved;  ///< entries that writers have reserved
  /// Exclusive queues only: `reserved` may grow up to this value. It is a cached lower bound, which
  /// is refreshed from `done`.
  std::uint64_t room;
  /// The state of publication, in one word, so that its two parts are read together: the number of
  /// entries before the turn of the next writer, and how many of them the last WQE has
  /// (PublishedWord).
  alignas(128) std::uint64_t ready;
  alignas(128) std::uint64_t done;  ///< WQEs whose first entry is before this one are complete
  /// The first error seen on this queue, or 0. Bits 63-40: hardware syndrome, its type and vendor
  /// syndrome; bit 32: always 1; bits 31-16: WQE counter; bits 15-0: opcode and syndrome.
  std::uint64_t error;
  std::uint64_t flushed;  ///< `ready` after the last READ that a quiet has posted (flush_rails)
};
static_assert(sizeof(QueueCursor) == 384);

/// QueueCursor::ready. Its low bits are the number of entries of the last WQE minus one (a WQE has
/// at most 63 units of 16 bytes, 16 entries); the rest is the count of all entries.
struct PublishedWord {
  static constexpr std::uint32_t kBits = 4;
  GSHMEM_ABI_FN static std::uint64_t make(std::uint64_t end, std::uint32_t last_entries) {
    return end << kBits | (last_entries - 1);
  }
  /// Returns the number of published entries; it is the turn of the writer whose first entry has
  /// this index.
  GSHMEM_ABI_FN static std::uint64_t end(std::uint64_t word) { return word >> kBits; }
  /// Returns 1 + the first entry of the last WQE: a wait for everything waits for this.
  GSHMEM_ABI_FN static std::uint64_t target(std::uint64_t word) {
    return (word >> kBits) - (word & ((1u << kBits) - 1));
  }
};

/// One queue to one PE: a reliable connection, or an initiator of dynamic connections, which has a
/// view for each PE.
struct alignas(64) QueueView {
  // Loaded together: where entries are written.
  char* entries = nullptr;   ///< `depth` entries of 64 bytes
  std::uint32_t number = 0;  ///< queue pair number, host order; 0: not connected yet (FirstUse)
  Be32 remote_key;           ///< key of the remote heap; addresses are offsets into the heaps
  // Loaded together: where entries are announced.
  std::uint64_t* doorbell = nullptr;  ///< UAR register, or a word that a host thread forwards
  Be32* send_record = nullptr;        ///< send counter of the doorbell record
  const Be32* completion = nullptr;   ///< last word of the one CQE of the collapsed CQ
  QueueCursor* cursor = nullptr;
  Be32 local_key;             ///< key of the local heap
  std::uint16_t pe = 0xffff;  ///< the PE at the other end
  std::uint8_t nic = 0;       ///< number of the local NIC, among those that this PE uses
  std::uint8_t rail = 0;      ///< number of the remote NIC, among those of that PE
  std::uint32_t index = 0;    ///< index in the array of queues of its context
  Be32 atomic_key;  ///< key of the remote heap for operations that do not pass earlier writes
};
static_assert(offsetof(QueueView, doorbell) == 16 && offsetof(QueueView, completion) == 32);
static_assert(sizeof(QueueView) == 64);

/// Where entries of initiators go: what follows their control unit (mlx5_wqe_av, 48 bytes).
struct alignas(16) AddressVector {
  std::uint64_t words[6];
};
/// The keys of another PE's memory, for one NIC there; as in QueueView.
struct RemoteKeys {
  Be32 payload, atomic;
};

/// Decides which of the queues to a PE a thread uses (GSHMEM_QP_MAP). A thread always uses the same
/// one, since its operations would otherwise be unordered; with kSm only as long as it stays on its
/// SM. Every other value is the number of the queue that all threads use: 0 is kPe.
enum class QueueMap : std::uint32_t { kPe = 0, kBlock = 256, kWarp, kSm };

/// For a queue that is connected when it is first posted to; in host memory. A writer that finds no
/// number in the view sets `asked` and Control::asked, and waits for the number here.
struct FirstUse {
  std::uint32_t asked;   ///< 1: requested by device code
  std::uint32_t number;  ///< set by the host, when both ends are connected
};

/// Properties in which NICs differ.
enum NicFlags : std::uint32_t {
  kNicFetchedBig = 1,  ///< 8-byte results of atomics are big-endian
  kNicReadNeedsDump =
      2,  ///< the data of READs and atomics may arrive after the completion, unless a DUMP follows
  kNicReadsRecord = 4,  ///< the NIC also looks at the doorbell record
  /// After a completion, data may still be on its way to memory when another NIC, or a PE that maps
  /// it, reads there: quiet waits until it has arrived (flush_rails). Not for queues of one thread,
  /// to which others may not post.
  kNicFlush = 8,
  /// A kernel may see a word of this PE before what the NIC wrote before that word, until the NIC
  /// reads: every wait ends with a DUMP (device/network/inbound.h).
  kNicInboundTrails = 16,
};

/// The common properties of all queues of a NicView in one word, which device code can keep in a
/// register (queue_shape.h makes it).
struct QueueTraits {
  static constexpr std::uint32_t kExclusive = 32, kGpuMemory = 64, kRecordFirst = 128,
                                 kRegister = 256, kNoRecord = 512;
  /// The doorbell is a register, and the entries are in memory of the processor that posts.
  static constexpr std::uint32_t kShortWay = 1024;
  static constexpr std::uint32_t kDynamic = 2048;    ///< queues are initiators (NicView::vectors)
  static constexpr std::uint32_t kNever = 1u << 31;  ///< set in none
  static constexpr std::uint32_t kDepthShift = 0, kBatchShift = 16;  ///< shifts of their logarithms
  static constexpr std::uint32_t kHeapShift = 24;  ///< shift of 63 minus a logarithm
  GSHMEM_ABI_FN static std::uint32_t depth(std::uint32_t traits) {
#if defined(__CUDA_ARCH__)
    if (!__builtin_is_constant_evaluated()) return __funnelshift_l(0, 1, traits);  // the same
#endif
    return 1u << (traits & 31);
  }
  GSHMEM_ABI_FN static std::uint32_t batch(std::uint32_t traits) {
    return 1u << (traits >> kBatchShift & 0xff);
  }
  /// Is an offset in registered memory? It is if it is at or after a power of two that is not
  /// before the end of the heap. It uses the traits, because a thread that posts has loaded them.
  GSHMEM_ABI_FN static bool is_beyond(std::uint32_t traits, std::uint64_t offset) {
    return offset >> (63 - (traits >> kHeapShift & 0x3f)) != 0;
  }
};

/// Queues of a PE, of the default context or of another one: those to PE p are [p * per_pe, (p + 1)
/// * per_pe). The nth of them uses the NIC of p with number n % rails. All atomics arrive by NIC 0,
/// because atomics that two NICs execute are not atomic to each other. Initiators are `count` =
/// per_pe queues, each with a view for each PE, and their numbers are those of PE 0's views.
struct alignas(16) NicView {
  // Loaded together, in 32 bytes, by all calls and by quiet.
  const QueueView* queues = nullptr;  ///< null: no network path
  QueueCursor* cursors = nullptr;     ///< for all queues, in the same order
  std::uint32_t* used = nullptr;      ///< bitmap: queues that have ever been written to
  std::uint32_t count = 0;            ///< number of all queues
  std::uint32_t flags = 0;            ///< NicFlags
  FirstUse* first_use = nullptr;  ///< for all queues, in the same order; null: all are connected
  std::uint32_t per_pe = 0;
  QueueMap map = QueueMap::kBlock;
  // Loaded together.
  std::uint32_t max_message = 0;  ///< maximum size of one WQE in bytes
  std::uint32_t traits = 0;       ///< QueueTraits
  std::uint32_t rails = 1;        ///< per_pe is a multiple of it
  /// per_pe - 1 if the short way is open (device/network/short_way.h): a thread takes the queue
  /// with the number of its block modulo per_pe, a power of two. Otherwise kNoShortWay.
  std::uint32_t block_mask = kNoShortWay;
  const AddressVector* vectors = nullptr;  ///< by PE, for initiators

  static constexpr std::uint32_t kNoShortWay = ~0u;
};
}  // namespace gshmem::abi

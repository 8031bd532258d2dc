// The fault records: what a device thread, or the host monitor, writes once when something went
// wrong and everyone else only reads. They live in host memory that the GPU maps, so that they
// survive a trap. Invariant: the first writer of a side wins (`claimed`), readers look only after
// `published` is set. Each side has a record of its own: PCIe does not make the atomics of GPU and
// CPU on one word atomic to each other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gshmem::abi {

/// What an argument of a call must be, where its value is wrong. host/runtime/fault.cpp has the
/// sentences.
enum class Rule : std::uint32_t {
  kNone,
  kPe,         ///< value in [0, limit)
  kOverflow,   ///< a number of elements of at most limit
  kSymmetric,  ///< limit bytes in the symmetric heap
  kNotNull,    ///< limit bytes of any memory
  kAligned,    ///< to limit bytes
  kStride,
  kSignalOp,
  kCmp,
  kApart,   ///< a signal word outside of the payload, which begins at limit
  kHandle,  ///< of an open context or queue
  kNotNegative,
  kTeam,
  kAloneBy,  ///< a context whose queue has limit entries as long as a burst is open
  kAtLeast,  ///< limit
  kAmount,   ///< of gshmemx_ask_smem
  kShared,   ///< shared memory of the block
  kGiven,    ///< the only memory that the block has given
  kZero,
  kElements,   ///< a tensor of limit elements
  kSameCall,   ///< PE `pe`, a member of the team, makes another one
  kSame,       ///< PE `pe` has limit
  kSameBytes,  ///< likewise, for each member
  kOnePe       ///< a plain kernel on a GPU of two PEs of a process
};

struct FaultRecord {
  std::uint32_t claimed;    ///< 0 -> 1 by the one writer
  std::uint32_t published;  ///< 1 when every other field is valid
  std::int32_t code;        ///< gshmemx_status
  std::int32_t pe;          ///< the PE concerned, -1 = none
  std::uint64_t
      value;  ///< the offending value, nanoseconds waited, or bytes 52 to 54 of a completion
  std::uint64_t limit;      ///< what it was checked against
  std::uint32_t queue;      ///< network path: queue number
  std::uint32_t wqe_index;  ///< network path: index of the entry that failed
  std::uint32_t opcode;     ///< network path: its opcode
  std::uint32_t syndrome;   ///< network path: error syndrome of the completion
  char call[56];            ///< API call, NUL-terminated
  char argument[12];        ///< argument name, or what was waited for, NUL-terminated
  Rule rule;                ///< that `argument` breaks
};
static_assert(sizeof(FaultRecord) == 120 && offsetof(FaultRecord, call) == 48);

/// A wait that takes long, noted by the thread that waits each time that it looks at the clock. Who
/// finds it `claimed` by another leaves it. The host reads it, and takes it back when the waiter
/// looks no more: so the end of a wait costs nothing. No access is more than a word.
struct WaitRecord {
  std::uint32_t claimed;          ///< 0 -> 1 by the waiter
  std::uint32_t published;        ///< 1 when all below is valid
  std::int32_t pe;                ///< that is awaited, or one of the next two
  std::uint32_t by_host;          ///< 1: a host thread waits
  std::uint64_t started, waited;  ///< nanoseconds of the waiter's clock
  std::uint64_t address;          ///< of the word that is awaited; 0 = no word of the program
  std::uint64_t wanted, seen;     ///< extended to 64 bits
  std::int32_t cmp;               ///< GSHMEM_CMP
  std::uint32_t is_signed;
  char call[56];  ///< API call, NUL-terminated
};
static_assert(sizeof(WaitRecord) == 120 && offsetof(WaitRecord, call) == 64);
inline constexpr std::int32_t kAnyPe = -1, kNetwork = -2;
/// A PE has its record by its number; the last one is for waits for nobody in particular.
inline constexpr int kWaits = 16;

/// One per PE, in host memory. `stop` makes every device-side wait of this PE return.
struct Control {
  std::uint32_t stop;
  /// 1: quiet_status has returned the fault on record, and no call without a status has met it.
  std::uint32_t returned;
  /// How often a completion said what no NIC can mean (device/network/queue.h, queue_poll).
  std::uint32_t bad_completions;
  std::uint32_t asked;  ///< 1: a queue is to be connected (FirstUse); the host sets it back
  std::uint32_t reserved[12];
  FaultRecord fault;       ///< by device code; where both are published, this one is told
  FaultRecord host_fault;  ///< by the library on the host
  WaitRecord waits[kWaits];
};
static_assert(offsetof(Control, fault) == 64);

}  // namespace gshmem::abi

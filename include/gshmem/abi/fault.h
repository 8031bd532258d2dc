// The fault records: a device thread, or the host monitor, writes one once after an error, and all
// others only read it. They are in host memory that the GPU maps, so that they survive a trap.
// Invariant: the first writer of a side wins (`claimed`); readers read only after `published` is
// set. Each side has a record of its own: over PCIe, atomics of GPU and CPU on one word are not
// atomic to each other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gshmem::abi {

/// The requirement that an argument of a call violates. host/runtime/fault.cpp has the sentences.
enum class Rule : std::uint32_t {
  kNone,
  kPe,         ///< a value in [0, limit)
  kOverflow,   ///< a number of elements of at most limit
  kSymmetric,  ///< limit bytes in the symmetric heap
  kNotNull,    ///< limit bytes of any memory
  kAligned,    ///< aligned to limit bytes
  kStride,
  kSignalOp,
  kCmp,
  kApart,   ///< a signal word outside of the payload, which begins at limit
  kHandle,  ///< a handle of an open context or queue
  kNotNegative,
  kTeam,
  kAloneBy,  ///< a context whose queue keeps its limit entries as long as a burst is open
  kAtLeast,  ///< at least limit
  kAmount,   ///< an amount of gshmemx_ask_smem
  kShared,   ///< shared memory of the block
  kGiven,    ///< the only memory that the block has given
  kZero,
  kElements,   ///< a tensor of limit elements
  kSameCall,   ///< PE `pe`, a member of the team, makes another call
  kSame,       ///< PE `pe` has limit
  kSameBytes,  ///< as kSame, for each member
  kOnePe,      ///< not a plain kernel on a GPU that two PEs of a process share
  kOfHost,     ///< memory that host threads can read
  kSameArray,  ///< at the offset of the heap that PE `pe` has as limit
  kHeld        ///< a lock that is set
};

struct FaultRecord {
  std::uint32_t claimed;    ///< set from 0 to 1 by the one writer
  std::uint32_t published;  ///< 1 when every other field is valid
  std::int32_t code;        ///< gshmemx_status
  std::int32_t pe;          ///< the PE concerned, -1 = none
  std::uint64_t
      value;  ///< the offending value, nanoseconds waited, or bytes 52 to 54 of a completion
  std::uint64_t limit;      ///< what it was checked against
  std::uint32_t queue;      ///< network path: queue number
  std::uint32_t wqe_index;  ///< network path: index of the entry that failed; of a list: the piece
  std::uint32_t opcode;     ///< network path: its opcode
  std::uint32_t syndrome;   ///< network path: error syndrome of the completion
  char call[56];            ///< API call, NUL-terminated
  /// Name of the argument, or what was waited for, NUL-terminated. "[].dest" is that of a piece.
  char argument[12];
  Rule rule;  ///< the rule that `argument` violates
};
static_assert(sizeof(FaultRecord) == 120 && offsetof(FaultRecord, call) == 48);

/// A long wait, noted by the waiter each time it reads the clock. A thread that finds it `claimed`
/// by another does not use it. The host reads it, and frees it when the waiter has stopped updating
/// it, so that the end of a wait costs nothing. No access is larger than a word.
struct WaitRecord {
  std::uint32_t claimed;          ///< set from 0 to 1 by the waiter
  std::uint32_t published;        ///< 1 when all fields below are valid
  std::int32_t pe;                ///< the awaited PE, or one of the next two constants
  std::uint32_t by_host;          ///< 1: a host thread waits
  std::uint64_t started, waited;  ///< nanoseconds of the waiter's clock
  std::uint64_t address;          ///< of the awaited word; 0 = no word of the program
  std::uint64_t wanted, seen;     ///< extended to 64 bits
  std::int32_t cmp;               ///< GSHMEM_CMP
  std::uint32_t is_signed;
  char call[56];  ///< API call, NUL-terminated
};
static_assert(sizeof(WaitRecord) == 120 && offsetof(WaitRecord, call) == 64);
inline constexpr std::int32_t kAnyPe = -1, kNetwork = -2;
/// The record of a PE is chosen by its number; the last one is for waits that do not name a PE.
inline constexpr int kWaits = 16;

/// One per PE, in host memory. `stop` makes every device-side wait of this PE return.
struct Control {
  std::uint32_t stop;
  /// 1: quiet_status has returned the recorded fault, and no call without a status has reported it.
  std::uint32_t returned;
  /// Number of completions with values that no NIC can produce (device/network/queue.h,
  /// queue_poll).
  std::uint32_t bad_completions;
  std::uint32_t asked;  ///< 1: a queue has to be connected (FirstUse); the host resets it
  /// In this PE's heap; null unless the program is compiled with -DGSHMEM_CHECK_ORDER.
  struct OrderShadow* order;
  std::uint32_t order_epoch;  ///< the last OrderShadow::epoch; for the host
  std::uint32_t reserved[9];
  FaultRecord fault;       ///< from device code; if both are published, this one is reported
  FaultRecord host_fault;  ///< from the library on the host
  WaitRecord waits[kWaits];
};
static_assert(offsetof(Control, fault) == 64);

}  // namespace gshmem::abi

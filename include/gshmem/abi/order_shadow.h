// Kernels and host threads note their calls here when the program is compiled with
// -DGSHMEM_CHECK_ORDER (docs/order-check.md). It is at the end of each heap, so that other PEs
// reach it; Control::order has its address. Invariant: zeroed memory is a valid one without calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gshmem::abi {

enum class OrderKind : std::uint32_t { kPut, kPutSignal, kGet, kFetch, kUpdate };

/// A call that may not be complete. No access is larger than a word.
struct OrderRecord {
  std::uint64_t turn;  ///< 0: none; kOrderBusy: being written; else the number of the call, plus 1
  std::uint64_t local,
      remote;                  ///< addresses of this PE: of its memory, and of the symmetric object
  std::uint64_t bytes, count;  ///< of an element, and how many
  std::int64_t local_stride, remote_stride;
  const char *name, *file;  ///< of the call; they are valid for kernels and host threads of this PE
  std::uint64_t thread;     ///< the one that made it
  std::int32_t line, pe;
  std::uint32_t context, epoch;
  OrderKind kind;
  std::uint32_t nbi;  ///< 1: it may use local memory until quiet
};
inline constexpr std::uint64_t kOrderBusy = ~std::uint64_t{0};
inline constexpr std::uint32_t kOrderRecords = 1024, kOrderContexts = 64, kOrderWords = 64,
                               kOrderPairs = 256;

/// Numbers of calls of a context: the first one after the last quiet, fence or acquire.
struct OrderContext {
  std::uint64_t quiet, fence;
  std::uint64_t acquired;  ///< `fence` when the PE last synchronized with another one
};

/// A word of this PE to which other PEs add, and the last call that did. Written by other PEs.
struct OrderWord {
  std::uint64_t word;  ///< its offset in the heap; 0: none
  std::uint32_t adds;  ///< 1: the last call added to it, and did not set it
  std::int32_t pe, line;
  char name[40], file[68];
};

/// The payload of a put with signal that is in this PE's heap, until a thread has waited for its
/// signal. Written by the PE that has put it.
struct OrderPayload {
  std::uint64_t state;              ///< OrderState
  std::uint64_t word, dest, bytes;  ///< offsets in the heap
  std::uint64_t sum;                ///< hash of its contents (device/api/order_watch.h)
  /// When it was put: OrderShadow::barriers of the sender, and OrderShadow::epoch of this PE.
  std::uint32_t barriers, epoch;
  std::int32_t pe, line;
  char name[40], file[64];
};
enum OrderState : std::uint64_t { kOrderFree, kOrderComing, kOrderThere, kOrderLooked };

struct OrderShadow {
  std::uint64_t head;      ///< the number of the next call
  std::uint64_t first;     ///< no earlier call is pending
  std::uint64_t acquired;  ///< `head` when the PE last synchronized with another one
  std::uint32_t epoch;     ///< changes when the host completes all calls
  std::uint32_t contexts;  ///< number of contexts that were used
  std::uint32_t findings;
  std::uint32_t barriers;  ///< number of barriers of all PEs that this one has entered
  OrderContext context[kOrderContexts];
  OrderRecord records[kOrderRecords];
  OrderWord words[kOrderWords];
  OrderPayload payloads[kOrderWords];
  std::uint64_t pairs[kOrderPairs];  ///< of places that were reported
};
inline constexpr std::uint64_t kOrderBytes = (sizeof(OrderShadow) + 4095) / 4096 * 4096;

}  // namespace gshmem::abi

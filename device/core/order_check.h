// The hooks of the order checkers (docs/order-check.md): calls of the API use them to report the
// operations that they start, order and await. Included by the API layer and by waits. Invariant:
// other code has none of them. Code for ThreadSanitizer has them, where they act only with
// GSHMEM_CHECK=order, and so has code that is compiled with -DGSHMEM_CHECK_ORDER
// (device/api/order_watch.h).
#pragma once

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GSHMEM_HAS_ORDER_CHECK
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define GSHMEM_HAS_ORDER_CHECK
#endif

#if defined(GSHMEM_HAS_ORDER_CHECK) && !defined(__CUDACC__)
#define GSHMEM_ORDER_ON
#elif defined(GSHMEM_CHECK_ORDER)
#define GSHMEM_WATCH_ON
#endif

#if defined(GSHMEM_ORDER_ON) || defined(GSHMEM_WATCH_ON)
#include <gshmem/abi/state.h>
#include <gshmem/abi/team.h>

#include "call_record.h"

#include <cstddef>
#include <cstdint>

namespace gshmem::device::order {

/// A put or get of `count` elements. A Checker gets the addresses at which this process maps remote
/// memory.
struct Transfer {
  const abi::DeviceState* state;  ///< the state of the context
  int pe;
  char* dest;
  const char* source;
  std::size_t bytes, count = 1;  ///< size of an element, and number of elements
  std::ptrdiff_t dest_stride = 0, source_stride = 0;
  bool blocking = false;
  std::uint64_t* signal = nullptr;  ///< set or added to after the payload
  std::uint64_t signal_value = 0;
  AmoOp signal_op = AmoOp::kSet;
};

}  // namespace gshmem::device::order
#endif

// GSHMEM_ORDER(code): `code` runs with `checker` where ThreadSanitizer checks the order.
#if !defined(GSHMEM_ORDER_ON)
#define GSHMEM_ORDER(...)
#else
namespace gshmem::device::order {

/// An atomic that fetches nothing.
struct Update {
  const abi::DeviceState* state;
  int pe;
  void* word;
  unsigned bytes;
  AmoOp op;
  std::uint64_t operand;
};

/// A collective as one member calls it. The checker models the effects that the specification
/// allows, not the algorithm: members that contribute data may store to `dest` of all members as
/// soon as they enter.
struct Collective {
  const abi::DeviceState* state;
  const abi::Team* team;
  CallKind kind;
  int root;
  char* dest;          ///< the destination; in a collect, this member's part of it
  const char* source;  ///< the source; if it has several parts, this member's own part
  std::size_t bytes;   ///< size of a part
};

/// Models the order that the specification promises as happens-before of ThreadSanitizer
/// (host/runtime/order_checker.cpp).
class Checker {
 public:
  virtual void put(const Transfer& transfer) = 0;
  virtual void get(const Transfer& transfer) = 0;
  virtual void update(const Update& update) = 0;
  /// An atomic of the nbi form has fetched the old value. The call may return before the value is
  /// stored to `fetch.dest`, so the checker stores it.
  virtual void land(const Transfer& fetch) = 0;
  virtual void fence(const abi::DeviceState& context) = 0;
  /// The operations to a PE, or to all (-1), are complete.
  virtual void quiet(const abi::DeviceState& context, int pe) = 0;
  /// The PE and all its contexts end.
  virtual void finish(const abi::DeviceState& state) = 0;
  /// The calling thread makes an atomic that fetches.
  virtual void before_fetch(const abi::DeviceState& context, int pe) = 0;
  /// Polls a word that a thread waits for. It orders nothing; acquire() does, when the wait is
  /// over.
  virtual std::uint64_t poll(const void* word, unsigned bytes) = 0;
  virtual void acquire(const void* word) = 0;
  /// The calling thread belongs to this PE.
  virtual void join(const abi::DeviceState& state) = 0;
  /// The calling thread enters a collective, and has returned from it.
  virtual void enter(const Collective& call) = 0;
  virtual void leave(const Collective& call) = 0;
  /// Excludes loads and stores of the calling thread from the check, until it is called with false.
  virtual void ignore(bool begins) = 0;

 protected:
  ~Checker() = default;
};

}  // namespace gshmem::device::order

/// Returns null where the order is not checked. A library without ThreadSanitizer does not define
/// it.
extern "C" __attribute__((visibility("default"), weak)) gshmem::device::order::Checker*
gshmemi_order_checker(void);

namespace gshmem::device::order {

inline Checker* active() { return gshmemi_order_checker ? gshmemi_order_checker() : nullptr; }

}  // namespace gshmem::device::order

#define GSHMEM_ORDER(...)                                                                  \
  if (::gshmem::device::order::Checker* const checker = ::gshmem::device::order::active(); \
      checker != nullptr) {                                                                \
    __VA_ARGS__                                                                            \
  }
#endif

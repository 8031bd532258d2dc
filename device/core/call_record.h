// One operation as data, which some other thread makes: what a host thread asks for while heaps are
// on GPUs, and what an on_stream call leaves in a stream. device/api/execute.h makes any of them by
// the device code. Host threads hand theirs to HostOps (host/runtime/gpu/host_ops.cpp).
#pragma once

#include <gshmem/abi/state.h>

#include <cstddef>
#include <cstdint>

namespace gshmem::device {

enum class AmoOp : std::uint32_t { kFetch, kSet, kSwap, kCompareSwap, kAdd, kAnd, kOr, kXor };

enum class ReduceOp : std::uint32_t { kSum, kProd, kMin, kMax, kAnd, kOr, kXor, kMaxloc };
inline constexpr int kReduceOps = 8, kElementTypes = 15;
/// Of a reduction; integers by their logarithm of bytes.
enum class ElementType : std::uint32_t {
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat,
  kDouble,
  kHalf,
  kBfloat16,
  kComplexf,
  kComplexd,
  kDouble2
};

enum class CallKind : std::uint32_t {
  kPut,            ///< dest, source, bytes, pe
  kGet,            ///< likewise
  kPutSignal,      ///< as kPut, and then as kSignal
  kP,              ///< dest, width, operand, pe
  kG,              ///< source, width, pe; the answer is the element, zero-extended
  kIput,           ///< dest, source, strides, width, bytes of all elements, pe
  kIget,           ///< likewise
  kAmo,            ///< dest, width, op, operand, cond, pe; the answer is the old value
  kSignal,         ///< signal, op, operand, pe
  kQuiet,          ///< context
  kQuietStatus,    ///< context; the answer is 0, or the code of the PE's first fault
  kBarrier,        ///< team; the answer is a status
  kSync,           ///< likewise
  kAlltoall,       ///< team, dest, source, bytes for one member; the answer is a status
  kBroadcast,      ///< likewise, and pe: number of the root in the team
  kFcollect,       ///< as kAlltoall
  kCollect,        ///< as kAlltoall, bytes that this member gives
  kAlltoalls,      ///< as kAlltoall, and strides, width
  kReduce,         ///< team, dest, source, bytes of all results, reduce_op, type; likewise
  kReducescatter,  ///< likewise
  kInscan,         ///< likewise
  kExscan,         ///< likewise
  kWait,           ///< source, status, values or operand, width, bytes of all words, cmp
  kProve,          ///< context, operand: a queue of it; the answer is 1 when it is worked off
  kLoad,           ///< source, width: a word of this PE, zero-extended
  kCopy,           ///< dest, source, bytes: between two places of this process
  kOrder,          ///< device/api/execute.h, execute_order; the answer is 0, or late_word
  kNop,            ///< likewise, execute_nop; the answer is 1 when it is worked off
  kTimed           ///< likewise, execute_timed; the answer is in nanoseconds
};

/// A call record. Symmetric addresses are those of this PE, in range. What a kind does not name is
/// not read.
struct Call {
  CallKind kind;
  std::int32_t pe = -1;
  const char* name = "";  ///< of the API function, for messages
  void* dest = nullptr;
  const void* source = nullptr;
  std::uint64_t bytes = 0;
  std::int64_t dst_stride = 1, src_stride = 1;  ///< in elements
  std::uint64_t operand = 0, cond = 0;
  std::uint64_t* signal = nullptr;
  const int* status = nullptr;   ///< of a wait: null, or != 0 for words that it leaves out
  const void* values = nullptr;  ///< of a wait: one for each word; null: `operand` for all
  const abi::DeviceState* context = nullptr;  ///< null: the PE's own
  AmoOp op = AmoOp::kSet;
  ReduceOp reduce_op = ReduceOp::kSum;
  ElementType type = ElementType::kInt8;
  std::uint32_t width = 0;  ///< bytes of a word or element
  std::uint32_t is_signed = 0;
  /// Transfers: the source is free, or the data here, when the call has been made.
  std::uint32_t waits = 1;
  std::int32_t team = 0, cmp = 0;

  explicit Call(CallKind which, const char* api_name, int to_pe = -1)
      : kind(which), pe(to_pe), name(api_name) {}
  /// `n` bytes to or from PE `to_pe`.
  static Call transfer(CallKind which, const char* api_name, void* to, const void* from,
                       std::size_t n, int to_pe, bool is_awaited) {
    Call call(which, api_name, to_pe);
    call.dest = to;
    call.source = from;
    call.bytes = n;
    call.waits = is_awaited ? 1 : 0;
    return call;
  }
  /// Of a team; `n` as its kind says, of a broadcast `root` too.
  static Call collective(CallKind which, const char* api_name, int team, void* to, const void* from,
                         std::size_t n, int root = -1) {
    Call call = transfer(which, api_name, to, from, n, root, true);
    call.team = team;
    return call;
  }
  /// A word of this PE.
  static Call load(const void* word, std::size_t word_bytes) {
    Call call(CallKind::kLoad, "");
    call.source = word;
    call.width = static_cast<std::uint32_t>(word_bytes);
    return call;
  }
  static Call quiet(const char* api_name, const abi::DeviceState* of = nullptr) {
    Call call(CallKind::kQuiet, api_name);
    call.context = of;
    return call;
  }
};

/// All members of a team make the call together, by kernels on GPUs.
inline bool is_collective(CallKind kind) {
  return kind >= CallKind::kAlltoall && kind <= CallKind::kExscan;
}

/// Failures are recorded as faults, not thrown.
class HostOps {
 public:
  /// Makes the call after all earlier ones of this object but for collectives of other threads;
  /// returns its answer, else 0. A transfer that does not wait has only begun. `dest` and `source`
  /// may be host or GPU memory. A barrier and a sync complete everything first, and are with host
  /// threads of the other PEs.
  virtual std::uint64_t run(const Call& call) = 0;

 protected:
  ~HostOps() = default;
};

}  // namespace gshmem::device

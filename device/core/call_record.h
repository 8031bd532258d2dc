// A call record: one operation as data, which another thread executes. Host threads of PEs with
// heaps on GPUs make call records, and on_stream calls queue them in a stream.
// host/runtime/execute.h executes every kind by device code. Host threads pass their records to
// HostOps (host/runtime/gpu/host_ops.cpp).
#pragma once

#include <gshmem/abi/state.h>

#include <cstddef>
#include <cstdint>

namespace gshmem::device {

enum class AmoOp : std::uint32_t { kFetch, kSet, kSwap, kCompareSwap, kAdd, kAnd, kOr, kXor };

enum class ReduceOp : std::uint32_t { kSum, kProd, kMin, kMax, kAnd, kOr, kXor, kMaxloc };
inline constexpr int kReduceOps = 8, kElementTypes = 15;
/// The element type of a reduction; integers are numbered by the logarithm of their bytes.
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
  kGet,            ///< the arguments of kPut
  kPutSignal,      ///< the arguments of kPut, and those of kSignal
  kP,              ///< dest, width, operand, pe
  kG,              ///< source, width, pe; returns the element, zero-extended
  kIput,           ///< dest, source, strides, width, bytes of all elements, pe
  kIget,           ///< as kIput
  kPutv,           ///< source: a list, bytes: the number of its pieces, pe, blocks; then kSignal,
                   ///< if `signal` is not null
  kGetv,           ///< as kPutv
  kAmo,            ///< dest, width, op, operand, cond, pe; returns the old value
  kSignal,         ///< signal, op, operand, pe
  kQuiet,          ///< context
  kQuietStatus,    ///< context; returns 0, or the code of the PE's first fault
  kBarrier,        ///< team; returns a status
  kSync,           ///< as kBarrier
  kAlltoall,       ///< team, dest, source, bytes for one member; returns a status
  kBroadcast,      ///< as kAlltoall, and pe: number of the root in the team
  kFcollect,       ///< as kAlltoall
  kCollect,        ///< as kAlltoall, with the bytes that this member contributes
  kAlltoalls,      ///< as kAlltoall, and strides, width
  kReduce,         ///< team, dest, source, bytes of all results, reduce_op, type; returns a status
  kReducescatter,  ///< as kReduce
  kInscan,         ///< as kReduce
  kExscan,         ///< as kReduce
  kWait,           ///< source, status, values or operand, width, bytes of all words, cmp
  kProve,          ///< context, operand: one of its queues; returns 1 when it has been processed
  kLoad,           ///< source, width: a word of this PE, zero-extended
  kCopy,           ///< dest, source, bytes: copies within this process
  kOrder,          ///< see host/runtime/execute_selftest.h, execute_order; returns 0, or late_word
  kNop,            ///< see execute_nop there; returns 1 when it has been processed
  kTimed           ///< see execute_timed there, and with blocks execute_timed_in_parts; returns
                   ///< nanoseconds
};

/// A call record. Symmetric addresses are those of this PE, and in range. Fields that the kind does
/// not name are not read.
struct Call {
  CallKind kind;
  std::int32_t pe = -1;
  const char* name = "";  ///< the API function, for messages
  void* dest = nullptr;
  const void* source = nullptr;
  std::uint64_t bytes = 0;
  std::int64_t dst_stride = 1, src_stride = 1;  ///< in elements
  std::uint64_t operand = 0, cond = 0;
  std::uint64_t* signal = nullptr;
  const int* status = nullptr;   ///< for a wait: null, or != 0 for words that it ignores
  const void* values = nullptr;  ///< for a wait: one for each word; null: `operand` for all
  const abi::DeviceState* context = nullptr;  ///< null: the PE's default context
  AmoOp op = AmoOp::kSet;
  ReduceOp reduce_op = ReduceOp::kSum;
  ElementType type = ElementType::kInt8;
  std::uint32_t width = 0;  ///< bytes of a word or element
  std::uint32_t is_signed = 0;
  /// For transfers: 1 = when the call returns, the source may be reused, or the data has arrived
  /// here.
  std::uint32_t waits = 1;
  std::int32_t team = 0, cmp = 0;
  /// Number of blocks that move the bytes. 0 = the copy engine, for lists in a stream, or one
  /// thread (kTimed).
  std::int32_t blocks = 0;

  explicit Call(CallKind which, const char* api_name, int to_pe = -1)
      : kind(which), pe(to_pe), name(api_name) {}
  /// Makes a record for `n` bytes to or from PE `to_pe`.
  static Call transfer(CallKind which, const char* api_name, void* to, const void* from,
                       std::size_t n, int to_pe, bool is_awaited) {
    Call call(which, api_name, to_pe);
    call.dest = to;
    call.source = from;
    call.bytes = n;
    call.waits = is_awaited ? 1 : 0;
    return call;
  }
  /// Makes a record for a team. `n` depends on the kind; `root` is for a broadcast.
  static Call collective(CallKind which, const char* api_name, int team, void* to, const void* from,
                         std::size_t n, int root = -1) {
    Call call = transfer(which, api_name, to, from, n, root, true);
    call.team = team;
    return call;
  }
  /// Makes a record that loads a word of this PE.
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

/// Do all members of a team make the call together? On GPUs, kernels execute it.
inline bool is_collective(CallKind kind) {
  return kind >= CallKind::kAlltoall && kind <= CallKind::kExscan;
}

/// Executes call records for host threads. Failures are recorded as faults, not thrown.
class HostOps {
 public:
  /// Can host threads read this memory? False for memory of a GPU.
  [[nodiscard]] virtual bool reads(const void* memory) = 0;
  /// Executes the call after all earlier ones of this object, except collectives of other threads.
  /// Returns its result, or 0. A transfer that does not wait has only been started. `dest` and
  /// `source` may be host or GPU memory. A barrier and a sync first complete all earlier calls;
  /// they synchronize with host threads of the other PEs.
  virtual std::uint64_t run(const Call& call) = 0;

 protected:
  ~HostOps() = default;
};

}  // namespace gshmem::device

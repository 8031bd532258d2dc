// Atomic operations for the atomic programs: the call, the operand of iteration i, and the effect
// on a word. The model runs on the device during the measurement and on the host after it, so every
// value is known.
#pragma once

#include "perftest/common/run.h"
#include "perftest/common/timing.h"

namespace perftest {

/// OP(enumerator, name, fetches, needs); needs is the AMO class of gshmem's type table.
#define PERFTEST_ATOMICS(OP)                      \
  OP(kInc, "inc", false, has_add)                 \
  OP(kAdd, "add", false, has_add)                 \
  OP(kAnd, "and", false, has_bits)                \
  OP(kOr, "or", false, has_bits)                  \
  OP(kXor, "xor", false, has_bits)                \
  OP(kSet, "set", false, is_atomic)               \
  OP(kSwap, "swap", true, is_atomic)              \
  OP(kCompareSwap, "compare_swap", true, has_add) \
  OP(kFetch, "fetch", true, is_atomic)            \
  OP(kFetchInc, "fetch_inc", true, has_add)       \
  OP(kFetchAdd, "fetch_add", true, has_add)       \
  OP(kFetchAnd, "fetch_and", true, has_bits)      \
  OP(kFetchOr, "fetch_or", true, has_bits)        \
  OP(kFetchXor, "fetch_xor", true, has_bits)

enum class Atomic {
#define PERFTEST_OP(ENUMERATOR, NAME, FETCHES, NEEDS) ENUMERATOR,
  PERFTEST_ATOMICS(PERFTEST_OP)
#undef PERFTEST_OP
};

/// Calls `loop.run<op>()`: its body is compiled for each operation, so that a loop has no branch
/// over them.
template <class Loop>
GSHMEM_FN void with_atomic(Atomic op, const Loop& loop) {
  switch (op) {
#define PERFTEST_OP(ENUMERATOR, NAME, FETCHES, NEEDS) \
  case Atomic::ENUMERATOR:                            \
    return loop.template run<Atomic::ENUMERATOR>();
    PERFTEST_ATOMICS(PERFTEST_OP)
#undef PERFTEST_OP
  }
}

template <Atomic kOp>
inline constexpr bool kFetches = false;
#define PERFTEST_OP(ENUMERATOR, NAME, FETCHES, NEEDS) \
  template <>                                         \
  inline constexpr bool kFetches<Atomic::ENUMERATOR> = FETCHES;
PERFTEST_ATOMICS(PERFTEST_OP)
#undef PERFTEST_OP

/// Returns the words before the first iteration: set bits for AND to clear, otherwise none.
template <class T>
T initial_value(Atomic op) {
  return op == Atomic::kAnd || op == Atomic::kFetchAnd ? static_cast<T>(~T{0}) : T{0};
}

template <class T>
GSHMEM_FN T operand_of(Atomic op, std::uint64_t iteration) {
  constexpr unsigned kBits = 8 * sizeof(T);
  const T bit = static_cast<T>(T{1} << (iteration % kBits));
  switch (op) {
    case Atomic::kInc:
    case Atomic::kFetchInc:
      return 1;
    case Atomic::kAnd:
    case Atomic::kFetchAnd:
      return static_cast<T>(~bit);
    case Atomic::kOr:
    case Atomic::kFetchOr:
      return bit;
    default:
      return static_cast<T>(iteration + 1);
  }
}

/// Returns the word after the operation (of a compare_swap whose condition held).
template <class T>
GSHMEM_FN T model(Atomic op, T word, T operand) {
  switch (op) {
    case Atomic::kInc:
    case Atomic::kAdd:
    case Atomic::kFetchInc:
    case Atomic::kFetchAdd:
      return static_cast<T>(word + operand);
    case Atomic::kAnd:
    case Atomic::kFetchAnd:
      return word & operand;
    case Atomic::kOr:
    case Atomic::kFetchOr:
      return word | operand;
    case Atomic::kXor:
    case Atomic::kFetchXor:
      return word ^ operand;
    case Atomic::kFetch:
      return word;
    default:
      return operand;
  }
}

/// Executes the operation. Returns the old word if it fetches, otherwise `expected`, which is also
/// the condition of compare_swap.
template <Atomic kOp, class T>
GSHMEM_FN T perform(const gshmem::LaunchContext& ctx, T* dest, T operand, T expected, int pe) {
  if constexpr (kOp == Atomic::kInc || kOp == Atomic::kAdd) ctx.atomic_add(dest, operand, pe);
  if constexpr (kOp == Atomic::kAnd) ctx.atomic_and(dest, operand, pe);
  if constexpr (kOp == Atomic::kOr) ctx.atomic_or(dest, operand, pe);
  if constexpr (kOp == Atomic::kXor) ctx.atomic_xor(dest, operand, pe);
  if constexpr (kOp == Atomic::kSet) ctx.atomic_set(dest, operand, pe);
  if constexpr (kOp == Atomic::kSwap) return ctx.atomic_swap(dest, operand, pe);
  if constexpr (kOp == Atomic::kCompareSwap) {
    return ctx.atomic_compare_swap(dest, expected, operand, pe);
  }
  if constexpr (kOp == Atomic::kFetch) return ctx.atomic_fetch(dest, pe);
  if constexpr (kOp == Atomic::kFetchInc || kOp == Atomic::kFetchAdd) {
    return ctx.atomic_fetch_add(dest, operand, pe);
  }
  if constexpr (kOp == Atomic::kFetchAnd) return ctx.atomic_fetch_and(dest, operand, pe);
  if constexpr (kOp == Atomic::kFetchOr) return ctx.atomic_fetch_or(dest, operand, pe);
  if constexpr (kOp == Atomic::kFetchXor) return ctx.atomic_fetch_xor(dest, operand, pe);
  return expected;
}

/// Returns the word after the iterations [first, last).
template <class T>
T model_after(Atomic op, std::uint64_t first, std::uint64_t last) {
  T word = initial_value<T>(op);
  for (std::uint64_t i = first; i < last; ++i) word = model(op, word, operand_of<T>(op, i));
  return word;
}

/// Calls `run(op, T{}, name)` for the operations of --atomic_op that the type of --datatype has.
/// Errors: UsageError when it has none of them.
template <class Run>
void for_each_atomic(const Bench& bench, const Run& run) {
  const std::string& wanted = bench.options().atomic_op;
  const DataType& type = *find_type(bench.options().datatype);
  bool any = false;
  const auto each = [&](Atomic op, const std::string& name, bool has) {
    if (!has || (wanted != "all" && wanted != name)) return;
    any = true;
    if (type.size == 4) {
      run(op, std::uint32_t{}, name);
    } else {
      run(op, std::uint64_t{}, name);
    }
  };
#define PERFTEST_OP(ENUMERATOR, NAME, FETCHES, NEEDS) each(Atomic::ENUMERATOR, NAME, type.NEEDS);
  PERFTEST_ATOMICS(PERFTEST_OP)
#undef PERFTEST_OP
  if (!any) {
    throw UsageError("--datatype: '" + std::string(type.name) + "' has no atomic operation '" +
                     wanted + "'");
  }
}

}  // namespace perftest

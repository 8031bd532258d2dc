// The operations of reductions on elements. In kernels the compiler knows operator and type; in a
// call record they are numbers. Both forms combine a word of several elements at a time.
#pragma once

#include "half.h"
#include "../core/call_record.h"

#include <type_traits>

namespace gshmem::device {

template <class T>
inline constexpr bool kIsNarrow =
    std::is_same_v<T, gshmem_half_t> || std::is_same_v<T, gshmem_bfloat16_t>;

template <class T>
inline constexpr bool kIsComplex =
    std::is_same_v<T, gshmem_complexf_t> || std::is_same_v<T, gshmem_complexd_t>;

/// The element type of the library that stands for T. A complex number of C, of C++ or of a class
/// with the same layout is reduced as the library's own complex type.
template <class T>
using Reduced = std::conditional_t<
    gshmem::detail::IsComplexOf<T, float>::value, gshmem_complexf_t,
    std::conditional_t<gshmem::detail::IsComplexOf<T, double>::value, gshmem_complexd_t, T>>;

/// Combines two elements. Sums and products of integers wrap. If one operand is NaN, a minimum or
/// maximum is one of the two operands. Maxloc returns the pair with the larger x, and of pairs with
/// equal x the one with the smaller y.
template <ReduceOp kOp, class T>
GSHMEM_FN T reduce_two(T a, T b) {
  if constexpr (kIsNarrow<T>) {
    T result{};
    narrow(reduce_two<kOp>(widen(a), widen(b)), result);
    return result;
  } else if constexpr (kIsComplex<T>) {
    if constexpr (kOp == ReduceOp::kSum) return {a.re + b.re, a.im + b.im};
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  } else if constexpr (kOp == ReduceOp::kMaxloc) {
    return a.x < b.x || (a.x == b.x && b.y < a.y) ? b : a;
  } else if constexpr (kOp == ReduceOp::kMin) {
    return b < a ? b : a;
  } else if constexpr (kOp == ReduceOp::kMax) {
    return a < b ? b : a;
  } else if constexpr (std::is_floating_point_v<T>) {
    return kOp == ReduceOp::kSum ? a + b : a * b;
  } else {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    if constexpr (kOp == ReduceOp::kSum) return static_cast<T>(x + y);
    if constexpr (kOp == ReduceOp::kProd) return static_cast<T>(x * y);
    if constexpr (kOp == ReduceOp::kAnd) return static_cast<T>(x & y);
    if constexpr (kOp == ReduceOp::kOr) return static_cast<T>(x | y);
    return static_cast<T>(x ^ y);
  }
}

/// Combines words that hold one or more elements, element by element.
template <ReduceOp kOp, class T>
struct TypedReducer {
  template <class W>
  GSHMEM_FN W operator()(W a, W b) const {
    constexpr std::size_t kLanes = sizeof(W) / sizeof(T);
    if constexpr (kLanes == 0) {
      return a;
    } else {
      struct Lanes {
        T of[kLanes];
      };
      auto left = bits<Lanes>(a);
      const auto right = bits<Lanes>(b);
      for (std::size_t i = 0; i < kLanes; ++i) {
        left.of[i] = reduce_two<kOp>(left.of[i], right.of[i]);
      }
      return bits<W>(left);
    }
  }
};

/// The operation of a call record.
struct AnyReducer {
  ReduceOp op;
  ElementType type;
  template <class W>
  GSHMEM_FN W operator()(W a, W b) const;
};

template <class T, class W>
GSHMEM_FN W reduce_number(ReduceOp op, W a, W b) {
  if (op == ReduceOp::kSum) return TypedReducer<ReduceOp::kSum, T>{}(a, b);
  if (op == ReduceOp::kProd) return TypedReducer<ReduceOp::kProd, T>{}(a, b);
  if (op == ReduceOp::kMin) return TypedReducer<ReduceOp::kMin, T>{}(a, b);
  return TypedReducer<ReduceOp::kMax, T>{}(a, b);
}
template <class T, class W>
GSHMEM_FN W reduce_complex(ReduceOp op, W a, W b) {
  if (op == ReduceOp::kSum) return TypedReducer<ReduceOp::kSum, T>{}(a, b);
  return TypedReducer<ReduceOp::kProd, T>{}(a, b);
}
template <class W>
GSHMEM_FN W reduce_bits(ReduceOp op, W a, W b) {
  if (op == ReduceOp::kAnd) return TypedReducer<ReduceOp::kAnd, std::uint8_t>{}(a, b);
  if (op == ReduceOp::kOr) return TypedReducer<ReduceOp::kOr, std::uint8_t>{}(a, b);
  return TypedReducer<ReduceOp::kXor, std::uint8_t>{}(a, b);
}
/// This is out of line: there is one copy per word type for all operators and types.
template <class W>
GSHMEM_OUTLINE W reduce_any(ReduceOp op, ElementType type, W a, W b) {
  if (op == ReduceOp::kAnd || op == ReduceOp::kOr || op == ReduceOp::kXor)
    return reduce_bits(op, a, b);
  if (op == ReduceOp::kMaxloc) return TypedReducer<ReduceOp::kMaxloc, gshmem_double2_t>{}(a, b);
  switch (type) {
    case ElementType::kInt8:
      return reduce_number<std::int8_t>(op, a, b);
    case ElementType::kInt16:
      return reduce_number<std::int16_t>(op, a, b);
    case ElementType::kInt32:
      return reduce_number<std::int32_t>(op, a, b);
    case ElementType::kInt64:
      return reduce_number<std::int64_t>(op, a, b);
    case ElementType::kUint8:
      return reduce_number<std::uint8_t>(op, a, b);
    case ElementType::kUint16:
      return reduce_number<std::uint16_t>(op, a, b);
    case ElementType::kUint32:
      return reduce_number<std::uint32_t>(op, a, b);
    case ElementType::kUint64:
      return reduce_number<std::uint64_t>(op, a, b);
    case ElementType::kFloat:
      return reduce_number<float>(op, a, b);
    case ElementType::kDouble:
      return reduce_number<double>(op, a, b);
    case ElementType::kHalf:
      return reduce_number<gshmem_half_t>(op, a, b);
    case ElementType::kBfloat16:
      return reduce_number<gshmem_bfloat16_t>(op, a, b);
    case ElementType::kComplexf:
      return reduce_complex<gshmem_complexf_t>(op, a, b);
    case ElementType::kComplexd:
      return reduce_complex<gshmem_complexd_t>(op, a, b);
    case ElementType::kDouble2:
      break;
  }
  return a;
}
template <class W>
GSHMEM_FN W AnyReducer::operator()(W a, W b) const {
  return reduce_any(op, type, a, b);
}

template <class T>
GSHMEM_FN constexpr ElementType element_type() {
  if constexpr (std::is_same_v<T, gshmem_half_t>) {
    return ElementType::kHalf;
  } else if constexpr (std::is_same_v<T, gshmem_bfloat16_t>) {
    return ElementType::kBfloat16;
  } else if constexpr (std::is_same_v<T, gshmem_double2_t>) {
    return ElementType::kDouble2;
  } else if constexpr (kIsComplex<T>) {
    return sizeof(T) == sizeof(double) ? ElementType::kComplexf : ElementType::kComplexd;
  } else if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == sizeof(float) ? ElementType::kFloat : ElementType::kDouble;
  } else {
    constexpr int kLog = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    constexpr auto kFirst =
        static_cast<std::uint32_t>(std::is_signed_v<T> ? ElementType::kInt8 : ElementType::kUint8);
    return static_cast<ElementType>(kFirst + kLog);
  }
}
GSHMEM_FN std::uint32_t element_bytes(ElementType type) {
  const auto number = static_cast<std::uint32_t>(type);
  if (number < 8) return 1u << number % 4;
  switch (type) {
    case ElementType::kFloat:
      return 4;
    case ElementType::kDouble:
    case ElementType::kComplexf:
      return 8;
    case ElementType::kComplexd:
    case ElementType::kDouble2:
      return 16;
    default:
      return 2;
  }
}

}  // namespace gshmem::device

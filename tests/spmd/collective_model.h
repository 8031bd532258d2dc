// The results of reductions and scans by a sequential model: the elements of each PE, and the
// results of each member. Included by the tests of collectives.
#pragma once

#include "tests/spmd/spmd.h"

#include <cstring>
#include <type_traits>

namespace gshmem::spmd {

/// Returns an element of PE `pe`. There are few and small values, which are exact for any type in
/// every order.
template <class T>
GSHMEM_FN T value_of(double value) {
  if constexpr (std::is_same_v<T, gshmem_half_t> || std::is_same_v<T, gshmem_bfloat16_t>) {
    // The upper half of a float is a bfloat16; none of these values needs more than 8 bits.
    const float wide = static_cast<float>(value);
    std::uint32_t raw = 0;
    memcpy(&raw, &wide, sizeof raw);
    std::uint32_t narrow = raw >> 16;
    if (std::is_same_v<T, gshmem_half_t>) {
      const std::uint32_t magnitude = raw & 0x7fffffff;
      narrow = (raw >> 16 & 0x8000) | (magnitude == 0 ? 0 : (magnitude - (112u << 23)) >> 13);
    }
    const std::uint16_t half = static_cast<std::uint16_t>(narrow);
    T result{};
    memcpy(static_cast<void*>(&result), &half, sizeof half);
    return result;
  } else {
    return static_cast<T>(value);
  }
}
template <class T>
constexpr bool kIsInteger = std::is_integral_v<T>;
GSHMEM_FN std::int64_t number_of(std::uint64_t seed, int pe, std::size_t i) {
  constexpr std::int64_t kValues[] = {1, 2, -1, -2};
  return kValues[mix(seed, static_cast<std::uint64_t>(pe) * 100'000 + i) % 4];
}
/// Applies the operator to two results as numbers; for integers modulo 2^64.
GSHMEM_FN std::int64_t combine(ReduceOp op, std::int64_t a, std::int64_t b) {
  const std::uint64_t x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  switch (op) {
    case ReduceOp::kSum:
      return static_cast<std::int64_t>(x + y);
    case ReduceOp::kProd:
      return static_cast<std::int64_t>(x * y);
    case ReduceOp::kMin:
      return a < b ? a : b;
    case ReduceOp::kMax:
      return a > b ? a : b;
    case ReduceOp::kAnd:
      return static_cast<std::int64_t>(x & y);
    case ReduceOp::kOr:
      return static_cast<std::int64_t>(x | y);
    case ReduceOp::kXor:
    case ReduceOp::kMaxloc:  // for pairs
      break;
  }
  return static_cast<std::int64_t>(x ^ y);
}
/// Both parts of a complex number, or of a pair.
struct Two {
  std::int64_t x, y;
};
GSHMEM_FN Two combine(ReduceOp op, Two a, Two b) {
  if (op == ReduceOp::kMaxloc) return b.x > a.x || (b.x == a.x && b.y < a.y) ? b : a;
  if (op == ReduceOp::kSum) return {a.x + b.x, a.y + b.y};
  return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
template <class T>
constexpr bool kIsTwo = device::kIsComplex<T> || std::is_same_v<T, gshmem_double2_t>;
/// Converts an element of T to a number, and back. Unsigned types have no negative values.
template <class T>
GSHMEM_FN auto number_in(std::uint64_t seed, int pe, std::size_t i) {
  const std::int64_t number = number_of(seed, pe, i);
  if constexpr (kIsTwo<T>) {
    return Two{number, number_of(seed + 1, pe, i)};
  } else {
    return std::is_unsigned_v<T> && number < 0 ? -number : number;
  }
}
template <class T, class Number>
GSHMEM_FN T element_of(Number number) {
  if constexpr (kIsTwo<T>) {
    using Part = std::conditional_t<sizeof(T) == sizeof(double), float, double>;
    return T{static_cast<Part>(number.x), static_cast<Part>(number.y)};
  } else if constexpr (kIsInteger<T>) {
    return static_cast<T>(number);
  } else {
    return value_of<T>(static_cast<double>(number));
  }
}
template <class T>
GSHMEM_FN bool is_same(T a, T b) {
  if constexpr (device::kIsComplex<T>) {  // zeros may have any sign
    return a.re == b.re && a.im == b.im;
  } else {
    const auto* left = reinterpret_cast<const std::uint8_t*>(&a);
    const auto* right = reinterpret_cast<const std::uint8_t*>(&b);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      if (left[i] != right[i]) return false;
    }
    return true;
  }
}

/// The result that is computed from the members' elements.
enum class Way { kReduce, kReducescatter, kInscan, kExscan };
inline constexpr Way kWays[] = {Way::kReduce, Way::kReducescatter, Way::kInscan, Way::kExscan};

/// The members of the world are the PEs in their order.
struct World {
  GSHMEM_FN int operator()(int member) const { return member; }
};

/// Returns element i of the result of member `me` of `n`, which are the PEs `pe_of(0)`, ...; there
/// are `count` elements.
template <class T, class PeOf>
GSHMEM_FN T result_of(Way way, ReduceOp op, std::uint64_t seed, int me, int n, std::size_t count,
                      std::size_t i, const PeOf& pe_of) {
  if (way == Way::kReducescatter) i += static_cast<std::size_t>(me) * count;
  const int last = way == Way::kInscan ? me : way == Way::kExscan ? me - 1 : n - 1;
  if (last < 0) return element_of<T>(decltype(number_in<T>(seed, 0, i)){});
  auto result = number_in<T>(seed, pe_of(0), i);
  for (int k = 1; k <= last; ++k) result = combine(op, result, number_in<T>(seed, pe_of(k), i));
  return element_of<T>(result);
}

}  // namespace gshmem::spmd

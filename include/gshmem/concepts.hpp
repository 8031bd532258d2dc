// Defines which C++ types the API accepts, from the type table, and what a group of threads is.
// C++20.
#pragma once

#if __cplusplus < 201709L
#error "gshmem: the C++ API needs C++20 (-std=c++20); C++17 has the functions of gshmem/gshmem.h"
#endif

#include "types.h"

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace gshmem {

/// A type that may be copied byte by byte: put, get.
template <class T>
concept Element = std::is_trivially_copyable_v<T>;

/// An element that one access transfers: p, g.
template <class T>
concept Scalar = Element<T> &&
    (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);

namespace detail {
// Rows of the type table with an AMO class at or above EXT, STD, BIT, or with WAIT. Several names
// may have one C++ type (uint64 and size), which then has the class of any of them.
enum AmoClass { kAmoNONE, kAmoEXT, kAmoSTD, kAmoBIT };
template <class T>
constexpr AmoClass amo_class() {
  AmoClass found = kAmoNONE;
#define GSHMEM_TYPE(NAME, TYPE, AMO, WAIT, REDUCE) \
  if (std::is_same_v<T, TYPE> && kAmo##AMO > found) found = kAmo##AMO;
#include "types.def"
  return found;
}
template <class T>
constexpr bool is_wait_type() {
  bool found = false;
#define GSHMEM_TYPE(NAME, TYPE, AMO, WAIT, REDUCE) \
  if (std::is_same_v<T, TYPE>) found = found || WAIT != 0;
#include "types.def"
  return found;
}
}  // namespace detail

/// Supports fetch, set, swap (OpenSHMEM 1.5, table 4), add.
template <class T>
concept AtomicWord = detail::amo_class<T>()
>= detail::kAmoEXT;
/// Also supports compare_swap (table 3).
template <class T>
concept AtomicInteger = detail::amo_class<T>()
>= detail::kAmoSTD;
/// Also supports and, or, xor (table 5).
template <class T>
concept AtomicBits = detail::amo_class<T>()
>= detail::kAmoBIT;
/// Supports wait_until, test (table 6).
template <class T>
concept WaitWord = detail::is_wait_type<T>();

/// Threads that make a call together: Thread, Warp and Block of the launch context, or the user's
/// own. sync() must order memory among the members like __syncthreads.
template <class G>
concept Group = requires(const G& group) {
  { group.thread_rank() } -> std::convertible_to<int>;
  { group.size() } -> std::convertible_to<int>;
  group.sync();
};

}  // namespace gshmem

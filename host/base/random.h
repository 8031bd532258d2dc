// Bits that nobody guesses: keys, names of sockets, words that tell a job's letters from others'.
// Included by what other processes can reach.
#pragma once

#include "host/base/error.h"

#include <sys/random.h>

#include <type_traits>

namespace gshmem {

template <class T>
[[nodiscard]] T random_bits() {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 256);
  T value;
  // Up to 256 bytes are never cut short (getrandom(2)).
  check_errno(::getrandom(&value, sizeof(value), 0), "getrandom");
  return value;
}

}  // namespace gshmem

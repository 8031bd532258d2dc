// Random bits that cannot be guessed, for keys, names of sockets, and words that identify the
// messages of a job. Included by code that other processes can reach.
#pragma once

#include "host/base/error.h"

#include <sys/random.h>

#include <type_traits>

namespace gshmem {

template <class T>
[[nodiscard]] T random_bits() {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 256);
  T value;
  // Requests of up to 256 bytes are never truncated (getrandom(2)).
  check_errno(::getrandom(&value, sizeof(value), 0), "getrandom");
  return value;
}

}  // namespace gshmem

// Hashes the layout of data that processes share, so that builds with different structs can be told
// apart. Included by the owners of such memory and messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace gshmem {

/// Hashes sizes and offsets: FNV-1a over their 64 bits.
[[nodiscard]] constexpr std::uint64_t layout_of(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint64_t number : numbers)
    for (int shift = 0; shift < 64; shift += 8)
      hash = (hash ^ (number >> shift & 0xff)) * 0x100000001b3;
  return hash;
}

}  // namespace gshmem

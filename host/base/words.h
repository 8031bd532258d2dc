// Copies bytes of memory that others may poll. An aligned word is stored and loaded without
// tearing, with release and acquire, because it may be a flag. Included by code that moves bytes of
// heaps by the CPU.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gshmem {

/// If the `bytes` bytes at `at` are one aligned word, calls `move(T{})` with its type. Otherwise
/// returns false.
template <class Move>
bool as_word(const void* at, std::size_t bytes, const Move& move) {
  const auto is = [&](std::size_t size) {
    return bytes == size && reinterpret_cast<std::uintptr_t>(at) % size == 0;
  };
  if (is(8)) return move(std::uint64_t{}), true;
  if (is(4)) return move(std::uint32_t{}), true;
  if (is(2)) return move(std::uint16_t{}), true;
  if (is(1)) return move(std::uint8_t{}), true;
  return false;
}

/// Pairs with the acquire of the thread that polls the word (device/core/wait.h).
inline bool store_as_word(void* to, const void* from, std::size_t bytes) {
  return as_word(to, bytes, [&]<class T>(T value) {
    std::memcpy(&value, from, sizeof(T));
    std::atomic_ref<T>(*static_cast<T*>(to)).store(value, std::memory_order_release);
  });
}

/// Pairs with the release of the word's writer: a thread of this PE, a kernel, or another host.
inline bool load_as_word(void* to, const void* from, std::size_t bytes) {
  return as_word(from, bytes, [&]<class T>(T value) {
    auto& word = *static_cast<T*>(const_cast<void*>(from));
    value = std::atomic_ref<T>(word).load(std::memory_order_acquire);
    std::memcpy(to, &value, sizeof(T));
  });
}

}  // namespace gshmem

// Remembers which device of the process executes the atomics on a word. Atomics of two NICs are not
// atomic to each other. So a client that lets two NICs change one word has a bug, which values need
// not show. The table has a limited size: of words that share an entry, only the last one is
// remembered. So the bug may not be detected on a word, but it is never reported wrongly. Threads:
// any.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace gshmem::soft {

class AtomicWords {
 public:
  /// Returns the table of this process, whose devices share its memory.
  static AtomicWords& of_process();

  /// Records an atomic of `device` (any address that identifies it) on the 8 bytes around
  /// `address`. Returns true if another device executed atomics there before. Afterwards the word
  /// belongs to `device`.
  [[nodiscard]] bool taken(const void* address, const void* device);
  /// Forgets words whose memory is no longer registered, and may be used for something else.
  void forget(const void* base, std::uint64_t bytes);

 private:
  struct Entry {
    std::uintptr_t word = 0;
    const void* device = nullptr;
  };
  static constexpr std::size_t kEntries = 1u << 14;

  std::mutex mutex_;
  std::array<Entry, kEntries> entries_{};
};

}  // namespace gshmem::soft

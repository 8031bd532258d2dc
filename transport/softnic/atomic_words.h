// Which device of the process executes the atomics on a word. Those of two NICs are not atomic to
// each other. So a client that lets two change one word has a bug that values need not show. A
// table of limited size: of words that share an entry only the last one is remembered, so the bug
// may go unseen on a word, but none is invented. Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace gshmem::soft {

class AtomicWords {
 public:
  /// The one of this process, whose devices share its memory.
  static AtomicWords& of_process();

  /// Notes an atomic of `device` (any address that stands for it) on the 8 bytes around `address`.
  /// True: they were another device's; from now on they are this one's.
  [[nodiscard]] bool taken(const void* address, const void* device);
  /// The memory is no region any more, and may become something else.
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

// Memory outside of the heap that the program has registered (gshmemx_buffer_register). The library
// does not need it; the list only detects mistakes. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace gshmem {

class UserBuffers {
 public:
  /// Returns false if it overlaps another one. Its end does not wrap around.
  [[nodiscard]] bool add(const void* addr, std::size_t length) {
    const auto first = reinterpret_cast<std::uintptr_t>(addr);
    const std::lock_guard lock(mutex_);
    const auto next = ends_.upper_bound(first);  // the first one that ends after `first`
    if (next != ends_.end() && next->second < first + length) return false;
    ends_.emplace(first + length, first);
    return true;
  }
  /// Returns false if none begins there.
  [[nodiscard]] bool remove(const void* addr) {
    const auto first = reinterpret_cast<std::uintptr_t>(addr);
    const std::lock_guard lock(mutex_);
    const auto at = ends_.upper_bound(first);
    if (at == ends_.end() || at->second != first) return false;
    ends_.erase(at);
    return true;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    ends_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<std::uintptr_t, std::uintptr_t> ends_;  ///< their first addresses, indexed by their ends
};

}  // namespace gshmem

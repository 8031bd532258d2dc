#include "transport/softnic/atomic_words.h"

namespace gshmem::soft {

AtomicWords& AtomicWords::of_process() {
  static AtomicWords words;
  return words;
}

bool AtomicWords::taken(const void* address, const void* device) {
  const std::uintptr_t word = reinterpret_cast<std::uintptr_t>(address) / sizeof(std::uint64_t);
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[word % kEntries];
  const bool others = entry.word == word && entry.device != device;
  entry = {word, device};
  return others;
}

void AtomicWords::forget(const void* base, std::uint64_t bytes) {
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(base) / sizeof(std::uint64_t);
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (entry.word - first <= bytes / sizeof(std::uint64_t)) entry = {};
  }
}

}  // namespace gshmem::soft

#include "transport/softnic/memory.h"

#include "host/base/words.h"

#include <atomic>
#include <cstring>
#include <span>

namespace gshmem::soft {
namespace {

/// Transfers up to this size do not tear aligned words: they may be flags.
constexpr std::size_t kSmallBytes = 64;

/// Returns the size of the largest naturally aligned word at `address` within `left` bytes.
std::size_t word_at(const void* address, std::size_t left) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t size = 8; size > 1; size /= 2) {
    if (left >= size && value % size == 0) return size;
  }
  return 1;
}

/// Copies bytes. One of the two sides, `heap`, may be polled.
template <class MoveWord>
void move(void* to, const void* from, const void* heap, std::size_t bytes, MoveWord move_word) {
  if (bytes > kSmallBytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t at = 0, size = 0; at < bytes; at += size) {
    size = word_at(static_cast<const std::uint8_t*>(heap) + at, bytes - at);
    (void)move_word(static_cast<std::uint8_t*>(to) + at,
                    static_cast<const std::uint8_t*>(from) + at, size);
  }
}

class HostMemory final : public MemoryAccess {
 public:
  bool write(void* to, const void* from, std::size_t bytes) override {
    move(to, from, to, bytes, store_as_word);
    return true;
  }

  bool read(const Part* parts, std::size_t count) override {
    for (const Part& part : std::span(parts, count))
      move(part.to, part.from, part.from, part.bytes, load_as_word);
    return true;
  }

  bool atomic(void* word, const nic::Wqe& wqe, std::uint64_t* old) override {
    *old = nic::carry_out_atomic(word, wqe);
    return true;
  }

  bool flush() override { return true; }
  [[nodiscard]] bool batched() const override { return false; }
};

std::atomic<std::uint64_t>& losses() {
  static std::atomic<std::uint64_t> count{0};
  return count;
}

}  // namespace

// Relaxed is enough: the caller has made the calls that lost writes, or holds the same lock as
// their callers.
std::uint64_t lost_writes() { return losses().load(std::memory_order_relaxed); }
void count_lost_writes() { losses().fetch_add(1, std::memory_order_relaxed); }

MemoryAccess& host_memory() {
  static HostMemory& memory = *new HostMemory;  // the engine's thread outlives static objects
  return memory;
}

}  // namespace gshmem::soft

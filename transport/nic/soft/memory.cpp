#include "transport/nic/soft/memory.h"

#include <atomic>
#include <cstring>

namespace gshmem::soft {
namespace {

/// Transfers up to this size keep their aligned words whole: they may hold flags.
constexpr std::size_t kSmallBytes = 64;

/// Size of the largest naturally aligned word at `address` within `left` bytes.
std::size_t word_at(const void* address, std::size_t left) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t size = 8; size > 1; size /= 2) {
    if (left >= size && value % size == 0) return size;
  }
  return 1;
}

template <class T>
void store(std::uint8_t* to, const std::uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  // Pairs with the acquire loads of clients that poll: what this engine wrote before is visible.
  __atomic_store_n(reinterpret_cast<T*>(to), value, __ATOMIC_RELEASE);
}

template <class T>
void load(std::uint8_t* to, const std::uint8_t* from) {
  const T value = __atomic_load_n(reinterpret_cast<const T*>(from), __ATOMIC_ACQUIRE);
  std::memcpy(to, &value, sizeof value);
}

void store_word(std::uint8_t* to, const std::uint8_t* from, std::size_t size) {
  switch (size) {
    case 8:
      return store<std::uint64_t>(to, from);
    case 4:
      return store<std::uint32_t>(to, from);
    case 2:
      return store<std::uint16_t>(to, from);
    default:
      return store<std::uint8_t>(to, from);
  }
}

void load_word(std::uint8_t* to, const std::uint8_t* from, std::size_t size) {
  switch (size) {
    case 8:
      return load<std::uint64_t>(to, from);
    case 4:
      return load<std::uint32_t>(to, from);
    case 2:
      return load<std::uint16_t>(to, from);
    default:
      return load<std::uint8_t>(to, from);
  }
}

template <class T>
std::uint64_t modify(T* word, const nic::Wqe& wqe) {
  T old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  while (!__atomic_compare_exchange_n(word, &old, static_cast<T>(nic::atomic_result(wqe, old)),
                                      false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
  return old;
}

class HostMemory final : public MemoryAccess {
 public:
  bool write(void* to, const void* from, std::size_t bytes) override {
    auto* target = static_cast<std::uint8_t*>(to);
    const auto* source = static_cast<const std::uint8_t*>(from);
    if (bytes > kSmallBytes) {
      std::memcpy(target, source, bytes);
      return true;
    }
    while (bytes > 0) {
      const std::size_t size = word_at(target, bytes);
      store_word(target, source, size);
      target += size, source += size, bytes -= size;
    }
    return true;
  }

  bool read(const Part* parts, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) read_one(parts[i]);
    return true;
  }

  bool atomic(void* word, const nic::Wqe& wqe, std::uint64_t* old) override {
    *old = wqe.length == 4 ? modify(static_cast<std::uint32_t*>(word), wqe)
                           : modify(static_cast<std::uint64_t*>(word), wqe);
    return true;
  }

  bool flush() override { return true; }
  [[nodiscard]] bool batched() const override { return false; }

 private:
  static void read_one(const Part& part) {
    auto* target = static_cast<std::uint8_t*>(part.to);
    const auto* source = static_cast<const std::uint8_t*>(part.from);
    std::size_t bytes = part.bytes;
    if (bytes > kSmallBytes) {
      std::memcpy(target, source, bytes);
      return;
    }
    while (bytes > 0) {
      const std::size_t size = word_at(source, bytes);
      load_word(target, source, size);
      target += size, source += size, bytes -= size;
    }
  }
};

std::atomic<std::uint64_t>& losses() {
  static std::atomic<std::uint64_t> count{0};
  return count;
}

}  // namespace

// Relaxed: the caller has made the calls that lost something, or shares the access's lock with
// them.
std::uint64_t lost_writes() { return losses().load(std::memory_order_relaxed); }
void count_lost_writes() { losses().fetch_add(1, std::memory_order_relaxed); }

MemoryAccess& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace gshmem::soft

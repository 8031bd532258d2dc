#include "transport/ofi/memory_access.h"

#include "transport/ofi/mapped_access.h"

#include <gshmem/abi/mlx5.h>
#include <gshmem/abi/state.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace gshmem::ofi {
namespace {

template <class T>
bool is_one(const void* to, std::size_t bytes) {
  return bytes == sizeof(T) && reinterpret_cast<std::uintptr_t>(to) % sizeof(T) == 0;
}

template <class T>
void store(void* to, const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  // Pairs with the acquire of the thread that polls the word (device/wait.h).
  std::atomic_ref<T>(*static_cast<T*>(to)).store(value, std::memory_order_release);
}

template <class T>
void load(void* to, void* from) {
  // Pairs with a release by threads of this PE: the word may be a flag.
  const T value = std::atomic_ref<T>(*static_cast<T*>(from)).load(std::memory_order_acquire);
  std::memcpy(to, &value, sizeof(T));
}

/// Calls `move` with a value of the type that `bytes` bytes at `heap` are one word of. Words that
/// wait_until and test take (2 to 8 bytes) are moved in one piece: somebody may be polling them.
template <class Move>
bool as_word(Move move, const void* heap, std::size_t bytes) {
  if (is_one<std::uint64_t>(heap, bytes)) {
    move(std::uint64_t{});
  } else if (is_one<std::uint32_t>(heap, bytes)) {
    move(std::uint32_t{});
  } else if (is_one<std::uint16_t>(heap, bytes)) {
    move(std::uint16_t{});
  } else {
    return false;
  }
  return true;
}

template <class T>
std::uint64_t change(void* at, const nic::Wqe& wqe) {
  std::atomic_ref<T> word(*static_cast<T*>(at));
  T old = word.load(std::memory_order_relaxed);
  // Acquire and release: signals are atomics, and order what was written before them.
  while (!word.compare_exchange_weak(old, static_cast<T>(nic::atomic_result(wqe, old)),
                                     std::memory_order_acq_rel, std::memory_order_relaxed))
    continue;
  return old;
}

class HostAccess final : public MemoryAccess {
 public:
  explicit HostAccess(const nic::Region& heap) : base_(static_cast<std::uint8_t*>(heap.base)) {}

  Staging allocate(std::size_t bytes) override {
    // Zeroed pages come from the kernel when they are first used; most of these never are.
    auto* memory = static_cast<std::uint8_t*>(std::calloc(bytes, 1));
    if (memory == nullptr) throw std::bad_alloc();
    return {memory, std::free};
  }
  Ticket start_write(std::uint64_t offset, const void* from, std::size_t bytes) override {
    void* to = base_ + offset;
    if (!as_word([&]<class T>(T) { store<T>(to, from); }, to, bytes)) std::memcpy(to, from, bytes);
    return kNoTicket;
  }
  Ticket start_read(std::uint64_t offset, void* to, std::size_t bytes) override {
    void* from = base_ + offset;
    if (!as_word([&]<class T>(T) { load<T>(to, from); }, from, bytes)) std::memcpy(to, from, bytes);
    return kNoTicket;
  }
  bool done(Ticket) override { return true; }
  Ticket start_atomic(std::uint64_t offset, const nic::Wqe& wqe, std::uint64_t* old) override {
    void* at = base_ + offset;
    const std::uint64_t found =
        wqe.length == 4 ? change<std::uint32_t>(at, wqe) : change<std::uint64_t>(at, wqe);
    if (old != nullptr) *old = found;
    return kNoTicket;
  }
  bool coherent() const override { return true; }

 private:
  std::uint8_t* base_;
};

}  // namespace

bool is_unwanted(const nic::Wqe& wqe) {
  return wqe.is_atomic() && wqe.local.front().address == offsetof(abi::InternalArea, sink);
}

Ticket start_result(MemoryAccess& heap, const nic::Wqe& wqe, std::uint64_t old,
                    std::uint8_t* staging) {
  if (wqe.length == 4) {
    const abi::Be32 big(static_cast<std::uint32_t>(old));
    std::memcpy(staging, &big.raw, sizeof(big.raw));
  } else {
    std::memcpy(staging, &old, sizeof(old));
  }
  return heap.start_write(wqe.local.front().address, staging, wqe.length);
}

std::unique_ptr<MemoryAccess> make_memory_access(const nic::Region& heap) {
  std::unique_ptr<MemoryAccess> access;
  if (heap.kind == nic::MemoryKind::kGpu)
    access = make_gpu_access(heap);
  else
    access = std::make_unique<HostAccess>(heap);
  if (heap.mapping == nullptr) return access;
  return std::make_unique<MappedAccess>(std::move(access), *heap.mapping);
}

#if !defined(GSHMEM_HAVE_CUDA)
namespace {
[[noreturn]] void refuse() {
  throw Error(GSHMEMX_ERROR_NOT_SUPPORTED,
              "the heap is GPU memory, and this build has no CUDA: build with GSHMEM_CUDA=ON");
}
}  // namespace
std::unique_ptr<MemoryAccess> make_gpu_access(const nic::Region&) { refuse(); }
#endif

}  // namespace gshmem::ofi

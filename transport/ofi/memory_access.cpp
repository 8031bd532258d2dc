#include "transport/ofi/memory_access.h"

#include "transport/ofi/mapped_access.h"

#include "host/base/words.h"

#include <gshmem/abi/mlx5.h>
#include <gshmem/abi/state.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace gshmem::ofi {
namespace {

class HostAccess final : public MemoryAccess {
 public:
  explicit HostAccess(const nic::Region& heap) : base_(static_cast<std::uint8_t*>(heap.base)) {}

  Staging allocate(std::size_t bytes) override {
    // calloc's zeroed pages come from the kernel when they are first used; most of these never are.
    auto* memory = static_cast<std::uint8_t*>(std::calloc(bytes, 1));
    if (memory == nullptr) throw std::bad_alloc();
    return {memory, std::free};
  }
  Ticket start_write(std::uint64_t offset, const void* from, std::size_t bytes) override {
    void* to = address_at(base_, offset);
    if (!store_as_word(to, from, bytes)) std::memcpy(to, from, bytes);
    return kNoTicket;
  }
  Ticket start_read(std::uint64_t offset, void* to, std::size_t bytes) override {
    void* from = address_at(base_, offset);
    if (!load_as_word(to, from, bytes)) std::memcpy(to, from, bytes);
    return kNoTicket;
  }
  bool done(Ticket) override { return true; }
  Ticket start_atomic(std::uint64_t offset, const nic::Wqe& wqe, std::uint64_t* old) override {
    const std::uint64_t found = nic::carry_out_atomic(address_at(base_, offset), wqe);
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

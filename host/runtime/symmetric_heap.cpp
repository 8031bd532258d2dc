#include "host/runtime/symmetric_heap.h"

#include <gshmem/abi/state.h>

#include "host/base/log.h"
#include "host/runtime/same_call.h"

#include <bit>
#include <cstring>

namespace gshmem {
namespace {

/// Returns the result of `work`. Adds the name of the API call to the text of its Error.
template <class Work>
auto named(const char* call, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), strprintf("%s: %s", call, error.what()));
  }
}

}  // namespace

SymmetricHeap::SymmetricHeap(const Memory& memory, Collectives& ranks,
                             std::function<void()> require_running)
    : memory_(memory),
      ranks_(ranks),
      require_running_(std::move(require_running)),
      allocator_(memory.bytes - abi::kInternalBytes, OffsetAllocator::kGranularity,
                 abi::kInternalBytes) {}

char* SymmetricHeap::at(std::uint64_t offset) const {
  return memory_.heap + abi::kInternalBytes + offset;
}

void SymmetricHeap::agree(const char* call, std::uint64_t size, std::uint64_t alignment) {
  named(call, [&] { require_running_(); });
  require_same_call(ranks_, call, size, alignment);
}

std::uint64_t SymmetricHeap::offset_of(const char* call, const void* ptr) const {
  const char* first = at(0);
  const char* p = static_cast<const char*>(ptr);
  require(p >= first && p < first + allocator_.capacity(), GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("%s: argument ptr = %p is not in the symmetric heap", call, ptr));
  return static_cast<std::uint64_t>(p - first);
}

std::uint64_t SymmetricHeap::size_of(const char* call, const void* ptr,
                                     std::uint64_t offset) const {
  try {
    return allocator_.size_of(offset);
  } catch (const Error& error) {
    throw Error(error.code(), strprintf("%s: argument ptr = %p: %s", call, ptr, error.what()));
  }
}

void* SymmetricHeap::allocate(const char* call, std::size_t bytes, std::size_t alignment,
                              bool clear) {
  const std::lock_guard lock(mutex_);
  require(std::has_single_bit(alignment), GSHMEMX_ERROR_INVALID_VALUE,
          strprintf("%s: argument alignment = %zu is not a power of two", call, alignment));
  agree(call, bytes, alignment);
  if (bytes == 0) return nullptr;
  void* const result = room_for(call, bytes, alignment);
  if (!result) return nullptr;
  if (clear) zero(result, bytes);
  named(call, [&] { ranks_.barrier(); });
  return result;
}

/// Returns null when the heap is full, on every PE alike: same calls, same heap. A request larger
/// than the whole heap counts as out of memory, also if the allocator calls it invalid.
void* SymmetricHeap::room_for(const char* call, std::size_t bytes, std::size_t alignment) {
  try {
    require(bytes <= capacity(), GSHMEMX_ERROR_OUT_OF_MEMORY,
            size_text(bytes) + " requested of a heap of " + size_text(capacity()));
    require(alignment <= memory_.alignment, GSHMEMX_ERROR_OUT_OF_MEMORY,
            strprintf("argument alignment = %zu is larger than that of the heap, %lu", alignment,
                      memory_.alignment));
    const std::lock_guard change(blocks_mutex_);
    return at(allocator_.allocate(bytes, alignment));
  } catch (const Error& error) {
    GSHMEM_WARN("%s: %s; raise GSHMEM_SYMMETRIC_SIZE", call, error.what());
    return nullptr;
  }
}

std::unique_lock<std::mutex> SymmetricHeap::enter(const char* call, std::uint64_t argument) {
  std::unique_lock lock(mutex_);
  agree(call, argument, 0);
  return lock;
}

void SymmetricHeap::free(const char* call, void* ptr) {
  if (!ptr) return;
  const std::lock_guard lock(mutex_);
  const std::uint64_t offset = offset_of(call, ptr);
  (void)size_of(call, ptr, offset);  // before any PE waits: a bad address is this PE's error alone
  agree(call, 0, offset);            // this is also the barrier that the specification requires
  const std::lock_guard change(blocks_mutex_);
  allocator_.free(offset);
}

void* SymmetricHeap::reallocate(const char* call, void* ptr, std::size_t bytes) {
  if (!ptr) return allocate(call, bytes, OffsetAllocator::kGranularity, false);
  if (bytes == 0) {
    free(call, ptr);
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  const std::uint64_t offset = offset_of(call, ptr);
  const std::uint64_t old_bytes = size_of(call, ptr, offset);
  agree(call, bytes, offset);
  {
    const std::lock_guard change(blocks_mutex_);
    if (bytes <= capacity() && allocator_.reallocate(offset, bytes)) return ptr;
  }
  void* const moved = room_for(call, bytes, OffsetAllocator::kGranularity);
  if (!moved) return nullptr;
  copy(moved, ptr, old_bytes);
  named(call, [&] { ranks_.barrier(); });
  const std::lock_guard change(blocks_mutex_);
  allocator_.free(offset);
  return moved;
}

std::string SymmetricHeap::complaint(const void* p, std::uint64_t bytes) const {
  using State = OffsetAllocator::State;
  const auto first = static_cast<std::uint64_t>(static_cast<const char*>(p) - at(0));
  const std::shared_lock reading(blocks_mutex_);
  const auto block = allocator_.containing(first);
  if (!block) return "";
  const auto name_of = [](const OffsetAllocator::Block& one) {
    return strprintf("the allocation of %s at offset %lu", size_text(one.requested_bytes).c_str(),
                     one.offset);
  };
  const std::uint64_t end = first + bytes;
  std::uint64_t next = block->offset + block->reserved_bytes;
  std::string text;
  if (block->state == State::kUsed) {
    const std::uint64_t last = block->offset + block->requested_bytes;
    if (end <= last) return "";
    text = first < last ? strprintf("%lu bytes leave %s", end - last, name_of(*block).c_str())
                        : "it begins behind " + name_of(*block);
  } else {
    text = strprintf("it begins at offset %lu, where nothing is allocated", first);
  }
  while (next < end) {
    const auto other = allocator_.containing(next);
    if (!other) break;
    if (other->state == State::kUsed) return text + "; it meets " + name_of(*other);
    next = other->offset + other->reserved_bytes;
  }
  return text;
}

void SymmetricHeap::copy(void* dst, const void* src, std::size_t bytes) {
  if (memory_.gpu) {
    memory_.gpu->copy(dst, src, bytes);
  } else {
    std::memcpy(dst, src, bytes);
  }
}

void SymmetricHeap::zero(void* dst, std::size_t bytes) {
  if (memory_.gpu) {
    memory_.gpu->zero(dst, bytes);
  } else {
    std::memset(dst, 0, bytes);
  }
}

}  // namespace gshmem
